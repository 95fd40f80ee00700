"""The times of the commands of a collective on the PEs of a group, each alone on its PE, from the blocks of the chip.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from kb_engine.block.fabric_roles import Initiator
from kb_engine.collectives.sizes import Sizes
from kb_engine.engine.engine import Engine
from kb_engine.program.pe import ProcessingElement
from kb_messages import (
    DmaParams,
    DType,
    LoadCommand,
    MathAttributes,
    Matrix,
    Rectangle,
    StageType,
    SubmittedCommand,
    VectorCommand,
    VectorOp,
    VectorProgram,
    VectorValue,
    join_address,
    scalar_of,
    split_address,
)

_PLACE: Final = 64
"""A multiple of the alignment of values in TCM."""
_OPS: Final = {"sum": "add", "mean": "add", "max": "maximum", "min": "minimum"}


class SendTimes(NamedTuple):
    """Picoseconds of a message from the begin of its transfer: to the commit, and to the acknowledgement."""

    commit_ps: int
    acknowledge_ps: int


class MoveTimes(NamedTuple):
    """Picoseconds of a load or a store from the begin of its set-up: until its head is at the memory, and in all.

    Its bytes hold the memory for `occupied_ps`, and take `links_ps` to come in.
    """

    arrival_ps: int
    alone_ps: int
    occupied_ps: int
    links_ps: int


class RankTimes:
    """The times of one rank's PE: its own costs, and those of its loads and stores at *home*, an address of memory."""

    def __init__(self, engine: Engine, pe: ProcessingElement, home: int, kinds: dict[bytes, dict[Any, int]]) -> None:
        blocks = [engine.components[node.id] for node in engine.topology.graph.pe_nodes(pe.pe_id)]
        self.pe = pe
        self.home = home
        self.dma: Initiator[Any] = next(block for block in blocks if isinstance(block, Initiator))
        sample = LoadCommand(src=Matrix.packed(1, 1, DType.I8, home), dst=self._matrix(0, 1, DType.I8))
        self.issue_ps = pe.cpu.issue_ps(sample)
        self.call_ps = pe.cpu.call_ps()
        self.decode_ps = pe.scheduler.decode_ps()
        self._engine = engine
        kind = b"".join(msgspec.json.encode([type(block).__qualname__, block.spec]) for block in blocks)
        self._kept = kinds.setdefault(kind, {})
        self._moves: dict[tuple[bool, int], MoveTimes] = {}

    @cached_property
    def setups_ps(self) -> tuple[int, int]:
        """The time for which a read, and a write, keeps the next one from beginning its set-up."""
        empty = DmaParams(Rectangle(0, 1, _PLACE, _PLACE))
        read, write = (self.dma.alone_ps(each, empty)[0] for each in (StageType.DMA_READ, StageType.DMA_WRITE))
        return read, write

    @cached_property
    def queue_depths(self) -> tuple[int, int]:
        """The reads, and the writes, that may wait in the queue of the DMA."""
        read, write = (self.dma.queue_depth(each) for each in (StageType.DMA_READ, StageType.DMA_WRITE))
        return read, write

    def send(self, to: RankTimes, nbytes: int) -> SendTimes:
        """The times of a message of *nbytes* to the PE of *to*."""
        memory = Rectangle(to._place(0), 1, nbytes, nbytes)
        whole_ps = self.dma.alone_ps(StageType.DMA_WRITE, DmaParams(memory))[0]
        path = self._engine.fabric.path(self.dma.node_id, to.pe.tcm_owner)
        return SendTimes(whole_ps - path.response_ps, whole_ps)

    def way_ps(self, to: RankTimes) -> int:
        """Picoseconds of a credit or a signal from this PE's queue to that of *to*, without the times of the queues."""
        assert self.pe.queue is not None, "a group of several PEs has queues"
        assert to.pe.queue is not None, "a group of several PEs has queues"
        return int(self._engine.fabric.leg(self.pe.queue.node_id, to.pe.queue.node_id).latency_ps)

    def move(self, nbytes: int, write: bool) -> MoveTimes:
        """The times of a load, or of a store, of *nbytes* at the home."""
        found = self._moves.get((write, nbytes))
        if found is None:
            stage = StageType.DMA_WRITE if write else StageType.DMA_READ
            memory = Rectangle(self.home, 1, nbytes, nbytes)
            alone_ps, _, occupied_ps = self.dma.alone_ps(stage, DmaParams(memory))
            path = self._engine.fabric.path(self.dma.node_id, split_address(self.home)[0])
            arrival_ps, links_ps = self.setups_ps[write] + path.request_ps, path.away.slowest_ps(nbytes) * write
            found = self._moves[write, nbytes] = MoveTimes(arrival_ps, alone_ps, occupied_ps, links_ps)
        return found

    def reduce_ps(self, sizes: Sizes, n: int, came_wide: bool, own_wide: bool, is_last: bool, ranks: int) -> int:
        """Picoseconds to combine two values of *n* elements, in f32 or i32 where *came_wide* and *own_wide* say so."""
        dtypes = tuple(sizes.wide if each else sizes.dtype for each in (came_wide, own_wide))
        key = "reduce", n, *dtypes, sizes, is_last, ranks if sizes.op == "mean" else 0
        if key not in self._kept:
            math = _Math(n, dtypes)
            places = [math.as_dtype(at, sizes.wide) for at in range(2)]
            result = math.op(MathAttributes(op=_OPS[sizes.op]), places, n, sizes.wide)
            if is_last and sizes.op == "mean":
                result = math.op(MathAttributes(op="mul", scalars=(scalar_of(1.0 / ranks),)), [result], n, sizes.wide)
            if is_last:
                result = math.as_dtype(result, sizes.dtype)
            self._kept[key] = self._math_ps(math, result)
        return self._kept[key]

    def copy_ps(self, n: int, dtype: DType) -> int:
        """Picoseconds to copy *n* elements out of a slot."""
        key = "copy", n, dtype
        if key not in self._kept:
            math = _Math(n, (dtype,))
            self._kept[key] = self._math_ps(math, math.op(MathAttributes(op="copy"), [0], n, dtype))
        return self._kept[key]

    def join_ps(self, lengths: Sequence[int], dtype: DType) -> int:
        """Picoseconds to put values of *lengths* elements one behind the other, pair by pair."""
        key = "join", *lengths, dtype
        if key not in self._kept:
            math = _Math(0, ())
            math.values = [VectorValue(1, each, dtype) for each in lengths]
            math.n_inputs = len(lengths)
            places = list(range(len(lengths)))
            while len(places) > 1:
                pairs = [places[at : at + 2] for at in range(0, len(places) - 1, 2)]
                joined = []
                for pair in pairs:
                    n = sum(math.values[each].cols for each in pair)
                    joined.append(math.op(MathAttributes(op="combine", lengths=(n,), strides=(1,)), pair, n, dtype))
                places = joined + places[2 * len(pairs) :]
            self._kept[key] = self._math_ps(math, places[0])
        return self._kept[key]

    def _math_ps(self, math: _Math, output: int) -> int:
        """Picoseconds of the vector program *math*, whose result is value *output*: its tiles one after the other."""
        inputs = [self._matrix(at, each.cols, each.dtype) for at, each in enumerate(math.values[: math.n_inputs])]
        result = math.values[output]
        program = VectorProgram(inputs=tuple(math.values[: math.n_inputs]), ops=tuple(math.ops), outputs=(output,))
        command = VectorCommand(
            program=program, inputs=tuple(inputs), outputs=(self._matrix(len(inputs), result.cols, result.dtype),)
        )
        submitted = SubmittedCommand(command_seq=0, pe=self.pe.pe_id, line="", command=command)
        components = self._engine.components
        return sum(
            components[stage.component].alone_ps(stage.stage_type, stage.params)[0]
            for tile in self.pe.scheduler.plan(submitted).tiles
            for stage in tile.stages
        )

    def _matrix(self, number: int, n: int, dtype: DType) -> Matrix:
        return Matrix.packed(1, n, dtype, self._place(number))

    def _place(self, number: int) -> int:
        """The address of value *number* in TCM. Times do not depend on it."""
        return join_address(self.pe.tcm_owner, self.pe.scheduler.reserved_nbytes + number * _PLACE)


class _Math:
    """A vector program in the making, of inputs of *n* elements."""

    def __init__(self, n: int, dtypes: Sequence[DType]) -> None:
        self.values = [VectorValue(1, n, each) for each in dtypes]
        self.n_inputs = len(dtypes)
        self.ops: list[VectorOp] = []

    def op(self, math: MathAttributes, arguments: Sequence[int], n: int, dtype: DType) -> int:
        """Adds an op, and returns the number of its result."""
        self.values.append(VectorValue(1, n, dtype))
        self.ops.append(VectorOp(math=math, arguments=tuple(arguments), result=self.values[-1]))
        return len(self.values) - 1

    def as_dtype(self, value: int, dtype: DType) -> int:
        """The number of *value* as *dtype*."""
        found = self.values[value]
        return value if found.dtype is dtype else self.op(MathAttributes(op="copy"), [value], found.cols, dtype)
