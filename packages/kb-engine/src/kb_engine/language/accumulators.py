"""Accumulators: results of `tl.dot` that stay in the register file until something needs them in TCM.

The sum of a loop over K is in registers from its first product to its last. Python alone knows whether the sum before
is still needed, and only after the call: `acc = tl.dot(a, b, acc)` drops the last reference to it when the call has
returned. So such a dot is deferred: it is issued with the next command, wait or end of the kernel, and this takes no
simulated time.

Design: docs/design/processing-element.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import ref

from msgspec.structs import replace

from kb_engine.language.deferred_calls import DeferredCalls
from kb_engine.memory.pending import Producer
from kb_engine.program.author.arguments import in_tcm
from kb_engine.program.language_base import allocate
from kb_engine.program.port import AccumulatorRegisters, Completion, ProgramPort
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.handles import Handle, LoadedTensor, Operators
from kb_messages import (
    Command,
    DrainCommand,
    DType,
    GemmCommand,
    KernelError,
    MathCommand,
    Matrix,
    TileShape,
    VectorCommand,
)


class AccumulatorTensor(LoadedTensor):
    """A sum in registers. Reading `matrix`, its place in TCM, moves the sum to TCM first."""

    def __init__(
        self, shape: tuple[int, int], dtype: DType, line: str, sums: Accumulators, operators: Operators
    ) -> None:
        super().__init__(Matrix.packed(*shape, dtype), shape, None, Producer("tl.dot", line), operators)
        self.in_registers = True
        self.forgotten = False
        self._sums = sums

    @property
    def matrix(self) -> Matrix:
        """The place of the sum in TCM, after the command that moves the sum there from the registers."""
        if self.in_registers:
            self._sums.bring_out(self)
        return self.place

    @property
    def freed(self) -> bool:
        """Whether `tl.free` freed the sum's registers or its TCM."""
        return self.forgotten or super().freed

    def settled_place(self) -> Matrix:
        """The place of the sum now, in registers or in TCM. Issues a deferred dot, and moves nothing."""
        self._sums.settle()
        return self.place

    def arrive(self, holder: TcmHolder, completion: Completion) -> None:
        """Notes that the sum lies in the TCM of *holder* when the command of *completion* is done."""
        self.place, self.holder, self.completion, self.in_registers = holder.matrix, holder, completion, False


class _Deferred(NamedTuple):
    """A deferred dot: the kernel called it, and it is not issued. It adds to the sum at *address* of the registers.

    `factors` keeps the TCM of the factors.
    """

    command: GemmCommand
    factors: tuple[object, object]
    address: int
    before: ref[AccumulatorTensor]
    result: ref[AccumulatorTensor]
    completion: Completion
    line: str


class _Sum(NamedTuple):
    """A sum in registers, and the kernel line that began it. `handle` returns None when the kernel dropped the sum."""

    matrix: Matrix
    handle: Callable[[], AccumulatorTensor | None]
    line: str


class Accumulators:
    """The sums of one program that lie in registers, the oldest first."""

    def __init__(self, port: ProgramPort, later: DeferredCalls) -> None:
        self._port = port
        self._later = later
        self._sums: dict[int, _Sum] = {}
        self._deferred: _Deferred | None = None

    @property
    def holds(self) -> bool:
        """Whether a dot is deferred."""
        return self._deferred is not None

    def tile(self, command: GemmCommand) -> TileShape | None:
        """The deepest tile of *command* that covers the whole result and fits the registers; None where none does.

        Its depth is that of the product, halved until it fits.
        """
        tile = command.tile
        assert tile is not None
        while self._operand_nbytes(command, tile) + _sum_nbytes(command) > self._port.registers.nbytes:
            if tile.k == 1:
                return None
            tile = TileShape(tile.m, tile.n, -(-tile.k // 2))
        return tile

    def dot(
        self,
        command: GemmCommand,
        factors: tuple[object, object],
        acc: Handle | None,
        line: str,
        operators: Operators,
    ) -> AccumulatorTensor:
        """The result of *command*, whose tile fits, added to *acc* (None: to zeros), in registers.

        *factors* are the values that the command multiplies. *command* has no accumulator yet, and its `out` gives the
        shape alone.
        """
        self._later.issue()
        result = AccumulatorTensor((command.out.rows, command.out.cols), command.out.dtype, line, self, operators)
        if isinstance(acc, AccumulatorTensor) and acc.in_registers:
            at = acc.place.address
            self._deferred = _Deferred(command, factors, at, ref(acc), ref(result), result.completion, line)
        else:
            before = None if acc is None else in_tcm(acc, line)
            self._begin(replace(command, acc=before), ref(result), result.completion, line)
        self._later.add(self)
        return result

    def bring_out(self, handle: AccumulatorTensor) -> None:
        """Moves *handle* from the registers to TCM."""
        self.settle()
        if handle.in_registers:
            self._drain(handle.place.address, self._port.line())

    def forget(self, handle: AccumulatorTensor) -> None:
        """Notes that *handle* is needed no more."""
        self.settle()
        handle.forgotten = True
        at = handle.place.address
        self._sums[at] = self._sums[at]._replace(handle=_nobody)

    def before(self, command: Command | None, line: str) -> None:
        """Issues a deferred dot, and makes room for the registers of *command*."""
        self.settle()
        if self._sums and isinstance(command, GemmCommand | MathCommand | VectorCommand) and not _is_held(command):
            self._make_room(self._port.register_nbytes(command, line), line)

    def end(self) -> None:
        """Issues a deferred dot, and moves all sums to TCM."""
        self.settle()
        for address in list(self._sums):
            self._drain(address, self._sums[address].line)

    def settle(self) -> None:
        """Issues a deferred dot."""
        deferred, self._deferred = self._deferred, None
        if deferred is None:
            return
        command, _, address, before, result, completion, line = deferred
        alive = before()
        if alive is None:  # `acc = tl.dot(a, b, acc)` dropped the sum before, so its registers are free to add to
            sum_before = self._sums.pop(address)
            held = sum_before.matrix
            self._submit(replace(command, acc=held, acc_held=True), held, result, completion, line, sum_before)
        else:
            self._drain(address, line)
            self._begin(replace(command, acc=alive.place), result, completion, line)

    def _begin(self, command: GemmCommand, result: ref[AccumulatorTensor], completion: Completion, line: str) -> None:
        """Issues *command*, whose sum takes registers of its own, or the registers of a sum without references."""
        nbytes = _sum_nbytes(command)
        replaced = self._forgotten(nbytes)
        if replaced is None:
            self._make_room(self._operand_nbytes(command, command.tile) + nbytes, line)
        address = self._port.registers.take(nbytes) if replaced is None else replaced.matrix.address
        assert address is not None, "the tile fits"
        out = Matrix.packed(command.out.rows, command.out.cols, command.out.dtype, address)
        self._submit(command, out, result, completion, line, replaced)

    def _submit(
        self,
        command: GemmCommand,
        held: Matrix,
        result: ref[AccumulatorTensor],
        completion: Completion,
        line: str,
        before: _Sum | None,
    ) -> None:
        """Issues *command*. Where that is refused, its result is lost, and the registers keep their sum.

        That is the sum *before*, which is needed no more, or none (None).
        """
        handle = result()
        if handle is not None:
            handle.place = held
        del handle  # a local reference would keep the result alive while the command is issued
        try:
            self._make_room(self._operand_nbytes(command, command.tile), line)
            self._sums[held.address] = _Sum(held, result, line)
            self._port.submit(replace(command, out=held, out_held=True), line, completion, True)
        except KernelError:
            lost = result()
            if lost is not None:
                lost.forgotten = True
            if before is None:
                self._sums.pop(held.address, None)
                self._port.registers.give_back(held.address)
            else:
                self._sums[held.address] = before._replace(handle=_nobody)
            raise

    def _forgotten(self, nbytes: int) -> _Sum | None:
        """Removes and returns a sum of *nbytes* to which the kernel has no reference; None without one."""
        for address, found in self._sums.items():
            if found.handle() is None and _aligned(found.matrix.nbytes) == nbytes:
                return self._sums.pop(address)
        return None

    def _make_room(self, nbytes: int, line: str) -> None:
        """Drains the oldest sums until *nbytes* of registers are free below the others."""
        while self._sums and self._port.registers.room_nbytes < nbytes:
            self._drain(next(iter(self._sums)), line)

    def _drain(self, address: int, line: str) -> None:
        """Moves the sum at *address* to TCM, also a sum without references: the registers have to be emptied."""
        held, find, _ = self._sums[address]
        handle, port = find(), self._port
        holder = allocate(port, held.rows, held.cols, held.dtype, line)
        del self._sums[address]
        completion = Completion()
        producer = None if handle is None else handle.producer
        port.memory.pending.mark(holder.matrix, producer or Producer("tl.dot", line))
        if handle is not None:
            handle.arrive(holder, completion)
        port.submit(DrainCommand(src=held, dst=holder.matrix), line, completion, True)
        port.registers.give_back(address)

    @staticmethod
    def _operand_nbytes(command: GemmCommand, tile: TileShape | None) -> int:
        """The registers of one tile's operands."""
        assert tile is not None
        return _aligned(tile.m * tile.k * command.a.dtype.nbytes) + _aligned(tile.k * tile.n * command.b.dtype.nbytes)


def _is_held(command: Command) -> bool:
    return isinstance(command, GemmCommand) and command.out_held


def _sum_nbytes(command: GemmCommand) -> int:
    return _aligned(command.out.rows * command.out.cols * command.a.dtype.accumulator.nbytes)


def _aligned(nbytes: int) -> int:
    """*nbytes* rounded up to the alignment of a tile's operand in registers."""
    return -(-nbytes // AccumulatorRegisters.ALIGNMENT) * AccumulatorRegisters.ALIGNMENT


def _nobody() -> None:
    return None
