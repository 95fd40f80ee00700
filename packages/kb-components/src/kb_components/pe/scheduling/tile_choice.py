"""The choice of the tile of a GEMM whose kernel leaves the tile open, by the costs of this PE's blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kb_engine.block import ComponentBase, ExclusivePort
from kb_messages import OFFSET_BITS, DmaParams, GemmCommand, Matrix, Rectangle, StageParams, StageType, TileShape
from kb_plans import StageTime, TileCosts, TileRoom, suggest_tile

_MOST_KNOWN: Final = 1 << 12
_known: dict[Hashable, TileShape] = {}
"""Chosen tiles, by all facts on which they depend. Most PEs of a chip are equal, so they share the tiles."""

_SOME_NBYTES: Final = 64


class TileChoice:
    """Chooses tiles for the PE whose scheduler is wired to *blocks*, which has *room* for tiles."""

    __slots__ = ("_key", "_room", "_servers", "_ways", "costs")

    def __init__(self, blocks: Iterable[ComponentBase[Any]], room: TileRoom) -> None:
        blocks = list(blocks)
        self._room = room
        self._servers = {stage_type: block for block in blocks for stage_type in block.servers}
        self._key = tuple((type(block), msgspec.json.encode(block.spec)) for block in _wired(blocks))
        self._ways: dict[int, Hashable] = {}
        self.costs = TileCosts(stage_time=self._stage_time, turns=self._turns())

    def tile(self, command: GemmCommand) -> TileShape:
        """The tile that `suggest_tile` chooses for *command*, with each operand moved to the beginning of its memory.

        So the tile depends only on the command's sizes, strides and memories, and not on the order of the calls.
        """
        key = self._key, self._room, _moved(command, _nowhere), self._ways_of(command)
        tile = _known.get(key)
        if tile is None:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            tile = _known[key] = suggest_tile(_moved(command, _at_begin), self._room, self.costs)
        return tile

    def _stage_time(self, stage_type: StageType, params: StageParams) -> StageTime:
        """The time of a stage at the block that serves it. A stage that no block serves is refused later."""
        block = self._servers.get(stage_type)
        return StageTime(0, 0) if block is None else StageTime(*block.alone_ps(stage_type, params))

    def _turns(self) -> tuple[tuple[StageType, ...], ...]:
        """The types of stages that wait for each other at one port."""
        ports: dict[int, dict[StageType, None]] = {}
        for stage_type, block in self._servers.items():
            for gate in block.servers[stage_type].own_gates:
                if isinstance(gate, ExclusivePort):
                    ports.setdefault(id(gate), {})[stage_type] = None
        return tuple(tuple(types) for types in ports.values() if len(types) > 1)

    def _ways_of(self, command: GemmCommand) -> tuple[Hashable, ...]:
        """The facts that decide the times of each operand's transfers, beside its shape; None for an operand in TCM."""
        operands = [(command.a, command.a_pinned), (command.b, command.b_pinned), (command.out, command.out_pinned)]
        operands += [(op.operand, op.operand_pinned) for op in command.epilogue if op.operand is not None]
        return tuple([None if pinned else self._way_to(matrix.address >> OFFSET_BITS) for matrix, pinned in operands])

    def _way_to(self, owner: int) -> Hashable:
        """The facts that decide the times of transfers with memory *owner*.

        Raises PlanError for a memory without links.
        """
        if owner not in self._ways:
            first = DmaParams(Rectangle(owner << OFFSET_BITS, 1, _SOME_NBYTES, _SOME_NBYTES))
            times = [self._stage_time(kind, first) for kind in (StageType.DMA_READ, StageType.DMA_WRITE)]
            block = self._servers.get(StageType.DMA_READ)
            form = None if block is None or not owner else block.context.fabric.form_of_idle(block.node_id, owner)
            self._ways[owner] = *times, form
        return self._ways[owner]


def _moved(command: GemmCommand, move: Callable[[Matrix], Matrix]) -> GemmCommand:
    """*command* with each operand replaced by the result of *move*."""
    epilogue = [replace(op, operand=None if op.operand is None else move(op.operand)) for op in command.epilogue]
    return replace(command, a=move(command.a), b=move(command.b), out=move(command.out), epilogue=tuple(epilogue))


def _at_begin(matrix: Matrix) -> Matrix:
    """*matrix* moved to the beginning of its memory."""
    return replace(matrix, address=matrix.address >> OFFSET_BITS << OFFSET_BITS, virtual=None)


def _nowhere(matrix: Matrix) -> Matrix:
    return replace(matrix, address=0, virtual=None)


def _wired(blocks: list[ComponentBase[Any]]) -> Iterator[ComponentBase[Any]]:
    """*blocks* and all blocks that wires lead to from there, each once."""
    seen = dict.fromkeys(blocks)
    ahead = list(seen)
    while ahead:
        block = ahead.pop(0)
        yield block
        new = [each for each in block.context.downstream if each not in seen]
        seen |= dict.fromkeys(new)
        ahead += new
