"""A processing element: the blocks of a PE that the engine itself calls, and the PE's TCM."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import Initiator
from kb_engine.block.pe_roles import AddressTranslator, CommandIssuer, CommandScheduler, MessageQueue
from kb_engine.block.register_file import RegisterFile, RegisterFileOwner
from kb_engine.memory.allocator import Allocator
from kb_messages import AddressError, Matrix, TopologyError, VectorProgram, join_address


class ProcessingElement:
    """The CPU, scheduler, MMU, message queue and memories of one PE. *tcm* is the number and size of its TCM.

    `max_pieces` is the most pieces of a DMA transfer. `tcm` allocates the part of the TCM that tile buffers do not use;
    kernels and the host share it. `event_order` numbers the PE's events for the clock. `fitting` caches vector programs
    for which the PE has a plan. Raises TopologyError for missing or surplus blocks, and for tile buffers that do not
    fit the TCM.
    """

    def __init__(self, pe_id: str, blocks: list[ComponentBase[Any]], tcm: tuple[int, int], reg_owner: int) -> None:
        self.pe_id = pe_id
        self.cpu: CommandIssuer[Any] = _one(pe_id, blocks, CommandIssuer)
        self.scheduler: CommandScheduler[Any] = _one(pe_id, blocks, CommandScheduler)
        self.event_order = self.scheduler.event_order
        self.tcm_owner, self.tcm_nbytes = tcm
        self.reg_owner = reg_owner
        self.registers: RegisterFile = _one(pe_id, blocks, RegisterFileOwner).registers
        self.register_nbytes = self.registers.nbytes
        self.fitting: set[VectorProgram] = set()
        self.mmu = _translator(blocks)
        self.queue = _queue(pe_id, blocks)
        self.max_pieces = min((block.max_pieces for block in blocks if isinstance(block, Initiator)), default=1)
        reserved = self.scheduler.reserved_nbytes
        if reserved > self.tcm_nbytes:
            raise TopologyError(
                self.scheduler.node_id,
                f"tile buffers of {reserved} bytes",
                f"at most the {self.tcm_nbytes} bytes of {pe_id}.pe_tcm",
                "use a smaller input_kib or output_kib",
            )
        self.tcm = self._empty_tcm()

    def restart(self) -> None:
        """Frees all of the TCM."""
        self.tcm = self._empty_tcm()

    def copy_tcm_from(self, other: ProcessingElement) -> None:
        """Copies the allocations in the TCM of *other*, an equal PE of another chip."""
        self.tcm = deepcopy(other.tcm)

    def _empty_tcm(self) -> Allocator:
        reserved = self.scheduler.reserved_nbytes
        nbytes = self.tcm_nbytes - reserved
        # With engine queues, loads run ahead of earlier commands. Bytes that were never taken have no user to wait for.
        spread_nbytes = 0 if self.cpu.engine_queue_depth is None else nbytes // 2
        base = join_address(self.tcm_owner, reserved)
        return Allocator(f"{self.pe_id}.pe_tcm", base, nbytes, spread_nbytes=spread_nbytes)

    def translate(self, matrix: Matrix) -> Matrix:
        """*matrix*, at a virtual address, at its physical address. Raises AddressError where this PE maps none."""
        if self.mmu is None:
            got = f"virtual address {matrix.address:#x}, and no pe_mmu to translate it"
            raise AddressError(self.pe_id, got, "a physical address", "add a pe_mmu to pe_template")
        return self.mmu.pages.translate(matrix)


def _translator(blocks: list[ComponentBase[Any]]) -> AddressTranslator[Any] | None:
    """The PE's MMU, or None. Raises TopologyError for a second MMU, and for an MMU that no wire leads to."""
    found = [block for block in blocks if isinstance(block, AddressTranslator)]
    for mmu in found:
        if len(found) > 1:
            raise TopologyError(mmu.node_id, f"{len(found)} blocks that are an AddressTranslator", "at most one")
        if not any(mmu in block.context.downstream for block in blocks):
            fix = "add `pe_dma -> pe_mmu` to the wires of pe_template"
            raise TopologyError(mmu.node_id, "no wire to it", "one from the DMA", fix)
        return mmu
    return None


def _queue(pe_id: str, blocks: list[ComponentBase[Any]]) -> MessageQueue[Any] | None:
    """The PE's message queue, or None. Raises TopologyError for a second one, and for a queue without slots."""
    found = [block for block in blocks if isinstance(block, MessageQueue)]
    if len(found) > 1:
        raise TopologyError(pe_id, f"{len(found)} blocks that are a MessageQueue", "at most one in pe_template")
    for queue in found:
        if queue.depth < 1:
            raise TopologyError(queue.node_id, f"a depth of {queue.depth}", "at least one slot for each channel")
        return queue
    return None


def _one(pe_id: str, blocks: list[ComponentBase[Any]], role: type[Any]) -> Any:
    found = [block for block in blocks if isinstance(block, role)]
    if len(found) != 1:
        raise TopologyError(pe_id, f"{len(found)} blocks that are a {role.__name__}", "one in pe_template")
    return found[0]
