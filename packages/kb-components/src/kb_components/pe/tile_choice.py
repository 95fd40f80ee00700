"""The tile of a GEMM whose kernel leaves the tile open: the one that the costs of this PE's blocks make fastest."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kb_engine.block import ComponentBase, ExclusivePort
from kb_messages import DmaParams, GemmCommand, Matrix, Rectangle, StageParams, StageType, TileShape
from kb_plans import StageTime, TileCosts, TileRoom, suggest_tile

_MOST_KNOWN: Final = 1 << 12
_known: dict[Hashable, TileShape] = {}
"""Tiles by everything that they depend on. PEs of one chip are mostly alike, so they share the answers."""

_FEW_NBYTES: Final = 64
_MANY_NBYTES: Final = 1 << 16


class TileChoice:
    """Chooses tiles for the PE whose scheduler is wired to *blocks*, which has *room* for tiles."""

    __slots__ = ("_key", "_room", "_servers", "costs")

    def __init__(self, blocks: Iterable[ComponentBase[Any]], room: TileRoom) -> None:
        blocks = list(blocks)
        self._room = room
        self._servers = {stage_type: block for block in blocks for stage_type in block.servers}
        self._key = tuple((type(block), msgspec.json.encode(block.spec)) for block in _wired(blocks))
        self.costs = TileCosts(stage_time=self._stage_time, turns=self._turns())

    def tile(self, command: GemmCommand) -> TileShape:
        """The tile that `suggest_tile` chooses for *command*."""
        key = self._key, self._room, self._without_addresses(command)
        tile = _known.get(key)
        if tile is None:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            tile = _known[key] = suggest_tile(command, self._room, self.costs)
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

    def _without_addresses(self, command: GemmCommand) -> Hashable:
        """*command* with the times of two transfers in place of each operand's address.

        A transfer's time is a latency and the bytes at a bandwidth, so two transfers tell one way from another.
        """
        bare = replace(
            command,
            a=_bare(command.a),
            b=_bare(command.b),
            out=_bare(command.out),
            epilogue=tuple(
                replace(op, operand=None if op.operand is None else _bare(op.operand)) for op in command.epilogue
            ),
        )
        operands = [(command.a, command.a_pinned), (command.b, command.b_pinned), (command.out, command.out_pinned)]
        operands += [(op.operand, op.operand_pinned) for op in command.epilogue if op.operand is not None]
        ways = tuple(
            self._stage_time(stage_type, DmaParams(Rectangle(matrix.address, 1, nbytes, nbytes)))
            for matrix, pinned in operands
            if not pinned
            for stage_type in (StageType.DMA_READ, StageType.DMA_WRITE)
            for nbytes in (_FEW_NBYTES, _MANY_NBYTES)
        )
        return bare, ways


def _bare(matrix: Matrix) -> Matrix:
    return Matrix.packed(matrix.rows, matrix.cols, matrix.dtype)


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
