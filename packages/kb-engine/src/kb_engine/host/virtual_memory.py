"""VirtualMemory: maps tensors to virtual addresses, by messages to the MMUs of PEs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from kb_engine.block.pe_roles import AddressTranslator
from kb_engine.engine.engine import Engine
from kb_engine.memory.page_table import PageTable
from kb_engine.program.values.tensors import Tensor
from kb_messages import AddressError, KernelError, MmuMap, MmuMessage, MmuUnmap
from kb_topology import did_you_mean

ItemT = TypeVar("ItemT")


def batched(items: Sequence[ItemT], n: int) -> tuple[tuple[ItemT, ...], ...]:
    """*items* in tuples of *n*: addresses of blocks as rows of blocks."""
    return tuple(tuple(items[start : start + n]) for start in range(0, len(items), n))


class Mappings:
    """The mapped tensors of one chip, by their first virtual address, and `end`, the end of all addresses that were
    ever used. All hosts of the chip share one object."""

    def __init__(self) -> None:
        self.mapped: dict[int, tuple[Tensor, list[MmuMap]]] = {}
        self.end = 0

    def add(self, first: int, end: int, tensor: Tensor, messages: list[MmuMap]) -> None:
        """Notes that *messages* mapped *tensor* at virtual addresses from *first* up to *end*, the next free page."""
        self.mapped[first] = replace(tensor, virtual=()), messages
        self.end = max(self.end, end)

    def has(self, tensor: Tensor) -> bool:
        """Whether *tensor*, at physical addresses, has virtual addresses on any PE."""
        return any(physical == tensor for physical, _ in self.mapped.values())


class VirtualMemory:
    """Maps tensors for one host, to addresses from page 1 on, each at most once. *mappings* are the mappings of its
    chip.

    `elapsed_ps` is the picoseconds of all calls.
    """

    def __init__(self, engine: Engine, mappings: Mappings) -> None:
        self._engine = engine
        self._mappings = mappings
        self.elapsed_ps = 0

    def map(self, tensor: Tensor, virtual: int | None, pe_ids: Sequence[str]) -> Tensor:
        """Maps *tensor* from *virtual* on, in whole pages for each block. Raises the errors of `send`."""
        page_nbytes = max((self._translator(pe_id).page_nbytes for pe_id in pe_ids), default=1)
        at = first = max(self._mappings.end, page_nbytes) if virtual is None else virtual
        messages: list[MmuMap] = []
        grids = []
        for copy in range(tensor.n_copies):
            addresses = []
            for _, matrix in tensor.blocks(copy):
                nbytes = -(-matrix.nbytes // page_nbytes) * page_nbytes
                messages.append(MmuMap(virtual=at, physical=matrix.address, nbytes=nbytes, pes=tuple(pe_ids)))
                addresses.append(at)
                at += nbytes
            grids.append(batched(addresses, len(tensor.col_bounds) - 1))
        self.send(messages)
        self._mappings.add(first, -(-at // page_nbytes) * page_nbytes, tensor, messages)
        return replace(tensor, virtual=tuple(grids))

    def unmap(self, tensor: Tensor) -> None:
        """Undoes the call of `map` that returned *tensor*. Raises KernelError for a tensor that is not mapped."""
        first = tensor.virtual[0][0][0] if tensor.virtual else -1
        physical, messages = self._mappings.mapped.get(first, (None, []))
        if physical != replace(tensor, virtual=()):
            raise KernelError(f"unmap of {tensor.name}", "a tensor that is not mapped", "one from host.map")
        self.send([MmuUnmap(virtual=each.virtual, nbytes=each.nbytes, pes=each.pes) for each in messages])
        del self._mappings.mapped[first]

    def send(self, messages: Sequence[MmuMessage]) -> None:
        """Sends *messages* in one call to the MMUs of the PEs that they name. When one MMU refuses a message, none
        obeys: the messages are tried on copies of the page tables first.

        Raises AddressError when an MMU refuses or when the physical bytes are in no memory, and KernelError for a PE
        that is missing or has no MMU.
        """
        tried: dict[str, PageTable] = {}
        for message in messages:
            if isinstance(message, MmuMap):
                self._check_is_memory(message)
            for pe_id in message.pes:
                if pe_id not in tried:
                    tried[pe_id] = self._translator(pe_id).pages.copy()
            for pe_id in message.pes:
                tried[pe_id].obey(message)
        call = self._engine.send(messages)
        self.elapsed_ps += call.response_ps - call.call_ps if call is not None else 0

    def _translator(self, pe_id: str) -> AddressTranslator[object]:  # type: ignore[type-var]  # of any Spec
        pe = self._engine.pes.get(pe_id)
        if pe is None:
            raise KernelError("map", f"PE {pe_id!r}", "the id of a PE", did_you_mean(pe_id, self._engine.pes))
        if pe.mmu is None:
            raise KernelError("map", f"{pe_id}, which has no MMU", "a pe_mmu in pe_template")
        return pe.mmu

    def _check_is_memory(self, message: MmuMap) -> None:
        region, offset = self._engine.topology.address_map.decode(message.physical)
        if offset + message.nbytes > region.nbytes:
            raise AddressError(
                f"map to {region.node_id}",
                f"bytes {offset:#x} to {offset + message.nbytes:#x}",
                f"a range within its {region.nbytes:#x} bytes",
            )
