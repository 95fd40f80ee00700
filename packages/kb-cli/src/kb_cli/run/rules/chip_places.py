"""ChipPlaces: the PEs, memories and blocks of a chip by number, so that sums over a log can be arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_engine import Host, Tensor
from kb_messages import OFFSET_BITS, OFFSET_MASK, MemorySpace
from kb_topology import InterleavedRegion, NodeKind

if TYPE_CHECKING:
    from kb_dataexec import OpLog

Array = npt.NDArray[np.int64]
PARTS: Final = 1 << 10
"""The share of an op's bytes in one memory is counted in parts of so many, so that sums are whole numbers."""


class FarBytes(NamedTuple):
    """Bytes that DMA ops moved from or to memories: one element for each rectangle and memory.

    `rectangle` is the index of the rectangle, `memory` the number of the memory, and `parts` the share of its bytes
    there, in 1 / PARTS.
    """

    rectangle: Array
    memory: Array
    parts: Array


class ChipPlaces:
    """Numbers for the places of the chip of *host*, and for its tensors.

    `pes` has the ids of all PEs, `memories` the ids of all nodes with memory, and `blocks` those of all nodes. A place
    is named by its index in these lists; -1 stands for none. `space_of` has the space of each memory, by id. `hbm` has
    the ids of HBM slices, `near` the one near each PE, and `dma_of` the DMA of each PE. `cube_of_pe` has the SIP
    and cube of each PE.
    """

    def __init__(self, host: Host) -> None:
        topology = host.engine.topology
        nodes = topology.graph.nodes
        self.pes: list[str] = list(host.engine.pes)
        self.blocks: list[str] = list(nodes)
        self.pe_number = pe_number = {pe: number for number, pe in enumerate(self.pes)}
        self.kind_of_block = [node.kind for node in nodes.values()]
        self.pe_of_block = np.array([pe_number.get(node.pe_id or "", -1) for node in nodes.values()], np.int64)
        self.block_number = {name: number for number, name in enumerate(self.blocks)}
        self._owners = topology.address_map.by_owner
        self.memories = [region.node_id for region in self._owners.values()]
        self.memory_number = {name: number for number, name in enumerate(self.memories)}
        self.space_of = {region.node_id: region.space for region in self._owners.values()}
        self.hbm = [name for name, space in self.space_of.items() if space is MemorySpace.HBM]
        self._memory_of_owner = {owner: number for number, owner in enumerate(self._owners)}
        self._regions = topology.address_map.interleaved
        by_pe = {node.pe_id: node for node in nodes.values() if node.pe_id}
        self.cube_of_pe = [(by_pe[pe].sip, by_pe[pe].cube) for pe in self.pes]
        self.dma_of = dict(self._dmas())
        self.near = [self.hbm[host.hbm_slice_of(pe)] for pe in range(len(self.pes))] if self.hbm else []

    def _dmas(self) -> list[tuple[int, str]]:
        """The DMA of each PE, by the number of the PE."""
        return [
            (int(pe), name)
            for name, kind, pe in zip(self.blocks, self.kind_of_block, self.pe_of_block.tolist(), strict=True)
            if kind is NodeKind.PE_DMA and pe >= 0
        ]

    def numbers(self, log: OpLog, columns: Array, known: dict[str, int]) -> Array:
        """The place of each of *columns*, numbers of texts of *log*, by *known*; -1 for a text that is no place."""
        texts, which = np.unique(columns, return_inverse=True)
        found = np.array([known.get(log.strings[text], -1) for text in texts.tolist()], np.int64)
        return found[which.reshape(-1)] if len(found) else np.empty(0, np.int64)

    def far_bytes(self, owner: Array, rectangles: Sequence[Array]) -> FarBytes:
        """The memories that have the bytes of *rectangles* (offset, rows, row_nbytes, stride) of memories *owner*.

        Bytes that lie evenly over an interleaved memory have its number, which is behind those of all memories.
        """
        found = [(np.empty(0, np.int64),) * 3]
        for number in np.unique(owner).tolist():
            mine = np.flatnonzero(owner == number)
            memory = self._memory_of_owner.get(number)
            if memory is not None:
                found.append((mine, np.full(len(mine), memory), np.full(len(mine), PARTS)))
            elif number in self._regions:
                found += self._interleaved(number, mine, [column[mine] for column in rectangles])
        return FarBytes(*map(np.concatenate, zip(*found, strict=True)))

    def _interleaved(self, owner: int, mine: Array, rectangles: list[Array]) -> list[tuple[Array, Array, Array]]:
        """The bytes of the rectangles with the indices *mine* in the interleaved memory *owner*: the even ones, and the
        others by slice.
        """
        region = self._regions[owner]
        offset, rows, row_nbytes, stride = rectangles
        a_round = region.interleaving.round_nbytes
        is_run = (rows == 1) | (stride == row_nbytes)
        kinds, which = _distinct_rows(
            offset % a_round,
            np.where(is_run, 1, rows),
            np.where(is_run, rows * row_nbytes, row_nbytes),
            np.where(is_run, 0, stride % a_round),
        )
        shares = np.array([_shares(region, *kind) for kind in kinds], np.int64)
        is_even = (shares == shares[:, :1]).all(axis=1)[which]
        even, uneven = np.flatnonzero(is_even), np.flatnonzero(~is_even)
        at, slice_number = np.nonzero(shares[which[uneven]])
        parts = shares[which[uneven[at]], slice_number]
        number = self._column_of_owner[owner]
        return [
            (mine[even], np.full(len(even), number), np.full(len(even), PARTS)),
            (mine[uneven[at]], self._slices(owner)[slice_number], parts),
        ]

    def _slices(self, owner: int) -> Array:
        """The memories over which the interleaved memory *owner* lies."""
        return np.array([self._memory_of_owner[base >> OFFSET_BITS] for base in self._regions[owner].slices], np.int64)

    @cached_property
    def part_of_column(self) -> Array:
        """The share, in 1 / PARTS, of evenly spread bytes in one memory, of each memory and interleaved memory."""
        return np.array([PARTS] * len(self.memories) + [PARTS // len(each.slices) for each in self._regions.values()])

    @cached_property
    def _column_of_owner(self) -> dict[int, int]:
        """The column of each memory and interleaved memory, by owner."""
        return self._memory_of_owner | {owner: number for number, owner in enumerate(self._regions, len(self.memories))}

    def columns_of(self, tensor: Tensor) -> Array:
        """The memory, or the interleaved memory, of each block of *tensor*, and the bytes of the block."""
        return np.array(
            [(self._column_of_owner[each.owner], each.nbytes) for _, each in tensor.every_block()], np.int64
        )

    @property
    def n_columns(self) -> int:
        """The number of memories, and of interleaved memories."""
        return len(self.memories) + len(self._regions)

    def by_memory(self, sums: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """*sums* with a column for each memory: columns of interleaved memories are spread over their slices."""
        found = sums[..., : len(self.memories)].astype(np.float64)
        for number, owner in enumerate(self._regions, len(self.memories)):
            if sums[..., number].any():
                slices = self._slices(owner)
                found[..., slices] += sums[..., number : number + 1] / len(slices)
        return found


def _shares(region: InterleavedRegion, offset: int, rows: int, row_nbytes: int, stride: int) -> list[int]:
    """The share of a rectangle in each slice of *region*, in 1 / PARTS."""
    shares, nbytes = [0] * len(region.slices), max(rows * row_nbytes, 1)
    for part in region.interleaving.parts(offset, rows, row_nbytes, stride):
        shares[part.number] = PARTS * part.rows * part.row_nbytes // nbytes
    return shares


def _distinct_rows(*columns: Array) -> tuple[list[list[int]], Array]:
    """The distinct rows of *columns*, and the index among them of each row."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, which = np.unique(column, return_inverse=True)
        number = np.unique(number * len(values) + which.reshape(-1), return_inverse=True)[1].reshape(-1)
    first = np.unique(number, return_index=True)[1]
    return np.stack([column[first] for column in columns], axis=1).tolist(), number


def tensor_starts(host: Host) -> tuple[Array, Array, Array]:
    """The blocks of the tensors of *host* in the order of addresses: owner, first offset, number of the tensor."""
    blocks = sorted(
        (matrix.owner, matrix.address & OFFSET_MASK, number)
        for number, tensor in enumerate(host.tensors)
        for _, matrix in tensor.every_block()
    )
    owner, offset, number = (np.array([block[at] for block in blocks], np.int64) for at in range(3))
    return owner, offset, number


def tensor_numbers(starts: tuple[Array, Array, Array], owner: Array, offset: Array) -> Array:
    """The number of the tensor whose block begins last at or before each place; -1 without one.

    *starts* has the blocks of the tensors, as `tensor_starts` returns them.
    """
    owners, offsets, numbers = starts
    if not len(owners) or not len(owner):
        return np.full(len(owner), -1, np.int64)
    known = np.unique(owners)
    first = np.searchsorted(known, owners) << OFFSET_BITS | offsets
    of_known = np.minimum(np.searchsorted(known, owner), len(known) - 1)
    at = np.maximum(np.searchsorted(first, of_known << OFFSET_BITS | offset, side="right") - 1, 0)
    is_there = (known[of_known] == owner) & (owners[at] == owner) & (offsets[at] <= offset)
    return np.where(is_there, numbers[at], -1)
