"""VectorPrograms: records the math of a kernel, and issues the needed part of it as one command, a vector program.

A program closes when a call needs the place of a value: a store, a dot, a composite, a read of a pending value,
`tl.wait`. It computes the value and all that the value depends on. Other values to which the kernel has references are
left for later, because most of them are never needed. Small values that are computed on the way are stored as well,
because that is cheaper than to compute them again. A value that depends on a value left by an earlier program is
stored, so that no chain of values grows from program to program.

A program also closes when TCM is full: the values to which the kernel has references are computed, in the place of
inputs that are needed no more, and the other inputs free their TCM. Where one program does not hold all of that, the
first ops are issued, as many as one program holds.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

from kb_engine.language.vector.closings import (
    Closing,
    closing_of,
    inputs_given_up,
    inputs_to_replace,
    needed_ops,
    phases_of,
    used_ops,
)
from kb_engine.language.vector.op_pieces import may_be_cut, parts_of
from kb_engine.language.vector.places import Stretch, places_among
from kb_engine.language.vector.recorded import (
    RecordedFunction,
    RecordedOp,
    RecordedTensor,
    RecordedView,
    VectorInput,
    program_of,
    recorded_function,
)
from kb_engine.memory.pending import Producer
from kb_engine.observe.capture import Recipe
from kb_engine.program.language_base import TcmFullError, allocate
from kb_engine.program.port import Completion, ProgramPort
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.handles import Handle, LoadedTensor, Operators, TensorView
from kb_messages import DType, Matrix, VectorCommand, VectorProgram, VectorValue

MOST_OPS: Final = 64
"""The most recorded ops. A further op has all results issued to which the kernel has references."""
_MOST_KEPT: Final = 4096
_FIX: Final = "; tl.wait(x) computes x at once, and frees the inputs of x"

_Source = VectorInput | RecordedOp


class VectorPrograms:
    """The open program of one kernel: its recorded ops."""

    def __init__(self, port: ProgramPort) -> None:
        self._port = port
        self._ops: list[RecordedOp] = []
        self._inputs: dict[tuple[int, int, int, int, DType], VectorInput] = {}

    def recorded(self, value: Handle) -> RecordedOp | None:
        """The op that makes *value*; None for a value that has a place."""
        return value.open_op if isinstance(value, RecordedTensor) else None

    def input(self, value: Handle, place: Matrix) -> VectorInput:
        """*value*, which lies at *place* in TCM, as an argument of a recorded op."""
        key = place.address, place.rows, place.cols, place.stride, place.dtype
        found = self._inputs.get(key)
        if found is None or found.holder is not value.holder:
            found = self._inputs[key] = VectorInput(place, value.holder, value.completion)
        return found

    def record(
        self,
        function: RecordedFunction,
        arguments: tuple[_Source, ...],
        shape: tuple[int, ...],
        known: npt.NDArray[Any] | None,
        operators: Operators,
        line: str,
    ) -> RecordedTensor:
        """Records *function*, and returns its result, which is computed when it is needed."""
        if len(self._ops) >= MOST_OPS:
            self.close()
        producer = None if known is not None else Producer(function.producer_op, line)
        is_known = False if function.is_float else _is_known(arguments, known is not None)
        if is_known is None:
            self._port.leave("computes with integers of memory")
        op = RecordedOp(function, arguments, producer, line, is_known)
        self._ops.append(op)
        return RecordedTensor(op, shape, known, operators, self.close, self.view)

    def view(self, of: RecordedTensor, shape: tuple[int, ...]) -> LoadedTensor:
        """The view of *of*, which is recorded, in *shape*, row by row. Constants are made in the new shape."""
        op, line = of.op, self._port.line()
        if op.stored is not None:
            return TensorView(of, shape)
        value = VectorValue(*sides_of(shape), of.dtype)
        known, operators = of.known if of.known is None else of.known.reshape(shape), of.operators
        assert operators is not None, "the language made the value"
        if value != op.value:
            if op.root.function.math.op == "fill":
                return self.record(recorded_function(op.root.function.math, value), (), shape, known, operators, line)
            op = RecordedView(op, value, line)
            self._ops.append(op)
        return RecordedTensor(op, shape, known, operators, self.close, self.view)

    def allocate(self, rows: int, cols: int, dtype: DType, line: str) -> TcmHolder:
        """Allocates a packed matrix in TCM. In a full TCM, the TCM of values that recorded ops alone need is freed.

        The results to which the kernel has references are computed first. Raises TcmFullError.
        """
        try:
            return self._allocate(rows, cols, dtype, line)
        except TcmFullError:
            self._close_in_place(None)
        while True:
            try:
                return allocate(self._port, rows, cols, dtype, line)
            except TcmFullError:
                if not self._close_first(None):
                    break
        return allocate(self._port, rows, cols, dtype, line, _FIX if self._ops else "")

    def _allocate(self, rows: int, cols: int, dtype: DType, line: str) -> TcmHolder:
        """Allocates a packed matrix in TCM. In a full TCM, recorded ops that are needed no more free their inputs."""
        try:
            return allocate(self._port, rows, cols, dtype, line)
        except TcmFullError:
            self._ops, self._inputs = needed_ops(self._ops, {id(op) for op in self._ops if op.alive}), {}
        return allocate(self._port, rows, cols, dtype, line)

    def recipe(self, op: RecordedOp) -> Recipe:
        """The recipe of the result of *op*: the program and inputs that compute it, without a command."""
        asked = {id(op.root)}
        program, inputs, _ = program_of(needed_ops(self._ops, asked), asked)
        return Recipe(program, tuple(each.matrix for each in inputs))

    def close(self, asked: RecordedOp | None = None) -> None:
        """Issues the ops for the result *asked*, or, with None, for all results to which the kernel has references."""
        self._issue_needed(asked)
        if self._ops:
            # Programs in parts and phases also store the results that other parts read.
            self._ops = [op for op in self._ops if not (op.stored if type(op) is RecordedOp else _arrived(op))]
        if isinstance(asked, RecordedView):
            _arrived(asked)

    def let_go(self, kind: type[TcmHolder]) -> None:
        """Issues all recorded ops if one of them reads bytes that a holder of *kind* holds, so that the bytes are free.

        Ops whose results the kernel has dropped are dropped.
        """
        inputs = (each for op in self._ops for each in op.arguments if type(each) is VectorInput)
        if any(isinstance(each.holder, kind) for each in inputs):
            self.close()

    def _issue_needed(self, asked: RecordedOp | None) -> None:
        ops = self._ops
        closing = closing_of(ops, asked)
        self._ops = [ops[at] for at in closing.left]
        for op in self._ops:
            op.defer()
        self._inputs = {}
        if closing.program is None:
            return
        try:
            self._issue_closing(closing, closing.program, ops)
        except TcmFullError:
            self._ops = [op for op in ops if op.stored is None]
            if self._close_in_place(asked):
                return
            if not self._close_first(asked):
                raise
        else:
            return
        if asked is not None and asked.stored is None:
            self._issue_needed(asked)

    def _issue_closing(self, closing: Closing, program: VectorProgram, ops: list[RecordedOp]) -> None:
        if closing.is_simple or self._fits(program):
            inputs = [_stored(ops[op].arguments[at]) for op, at in closing.inputs]
            leaving = [ops[at] for at in closing.leaving]
            self._submit(program, inputs, leaving, ops[closing.needed[0]].line)
            return
        needed = [ops[at] for at in closing.needed]
        outputs = {id(ops[at]) for at in closing.leaving}
        if not self._issue_in_phases(needed, outputs):
            self._issue_in_parts(needed, outputs)

    def _close_in_place(self, asked: RecordedOp | None) -> bool:
        """Issues *asked*, and results to which the kernel has references and that have a place, in one program, in a
        full TCM.

        Returns False if that takes several programs, or if *asked*, or every result, neither fits the free TCM nor has
        an input to replace.
        """
        ops = self._ops
        outputs = {id(op.root) for op in ops if op.alive or op is asked}
        while outputs:
            left = needed_ops(ops, {id(op) for op in ops if op.alive and id(op.root) not in outputs})
            needed = [op for op in needed_ops(ops, outputs) if not isinstance(op, RecordedView)]
            program, inputs, leaving = program_of(needed, outputs)
            if not self._fits(program):
                return False
            places = self._places(leaving, inputs_to_replace(program, inputs, left))
            if len(places) == len(leaving):
                break
            outputs -= {id(op) for op in leaving if op not in places}
            if asked is not None and id(asked.root) not in outputs:
                return False
        else:
            return False
        self._inputs = {}
        self._submit(program, inputs, leaving, needed[0].line, list(places.values()))
        self._ops = [op for op in left if op.stored is None]
        for op in self._ops:
            op.defer()
        for op in ops:
            _arrived(op)
        return True

    def _close_first(self, asked: RecordedOp | None) -> bool:
        """Issues the first needed ops, the most that one program holds and that leave more TCM free, in a full TCM.

        Returns False where no such program has room for its results.
        """
        ops = self._ops
        named = needed_ops(ops, {id(op) for op in ops if op.alive or op is asked})
        outputs = {id(op.root) for op in named if op.alive or op is asked}
        needed = [op for op in named if not isinstance(op, RecordedView)]
        if not needed:
            return False
        for count in range(self._most(needed, outputs, len(needed)), 0, -1):
            first = {id(op) for op in needed[:count]}
            program, inputs, leaving = program_of(needed[:count], first & (outputs | used_ops(needed[count:])))
            if not self._fits(program):
                continue
            left = [op for op in named if id(op) not in first]
            given_up = inputs_given_up(inputs, left)
            freed = sum(each.value.nbytes for each in given_up) - sum(op.value.nbytes for op in leaving)
            if freed <= 0 and not (asked is not None and asked.root in leaving):
                continue
            places = self._room(program, inputs, leaving, given_up)
            if places is not None:
                break
        else:
            return False
        self._inputs = {}
        self._submit(program, inputs, leaving, needed[0].line, places)
        for op in ops:
            _arrived(op)
        self._ops = [op for op in left if op.stored is None]
        return True

    def _room(
        self,
        program: VectorProgram,
        inputs: list[VectorInput],
        leaving: list[RecordedOp],
        given_up: list[VectorInput],
    ) -> list[TcmHolder] | None:
        """The places of the results *leaving* of *program*, among free bytes and the bytes of the inputs *given_up*.

        None where a result has no place, and where a tile would store to bytes that a later tile fetches.
        """
        tcm = self._port.tcm
        free = [Stretch(start, end, True) for start, end in tcm.allocator.free_ranges()]
        sizes = [tcm.allocator.rounded(op.value.nbytes) for op in leaving]
        held = [_bytes_of(each, tcm.allocator.rounded(each.value.nbytes)) for each in given_up]
        matrices = tuple([each.matrix for each in inputs])
        for apart in (True, False):
            starts = places_among([*free, *held], sizes, apart)
            if starts is None:
                continue
            ends = [start + size for start, size in zip(starts, sizes, strict=True)]
            overlaid = [
                each
                for each, at in zip(given_up, held, strict=True)
                if any(start < at.end and at.start < end for start, end in zip(starts, ends, strict=True))
            ]
            outputs = [_packed(op.value, start) for op, start in zip(leaving, starts, strict=True)]
            command = VectorCommand(program=program, inputs=matrices, outputs=tuple(outputs))
            if not overlaid or self._port.reads_first(command):
                return self._taken(leaving, starts, overlaid)
        return None

    def _taken(self, leaving: list[RecordedOp], starts: list[int], overlaid: list[VectorInput]) -> list[TcmHolder]:
        """The places of the results *leaving* at *starts*, after the inputs *overlaid* have given back their TCM."""
        tcm = self._port.tcm
        for each in overlaid:
            assert each.holder is not None, "an input that is all of its place"
            each.holder.free()
        return [
            TcmHolder(tcm, _packed(op.value, tcm.take(start, op.value.nbytes, op.line)), op.line)
            for op, start in zip(leaving, starts, strict=True)
        ]

    def _places(self, leaving: list[RecordedOp], free: list[VectorInput]) -> dict[RecordedOp, TcmHolder]:
        """The places of the results *leaving*, of *free* inputs or fresh ones. Results without a place are left out."""
        places: dict[RecordedOp, TcmHolder] = {}
        for op in leaving:
            found = next((each for each in free if each.value == op.value), None)
            if found is not None and found.holder is not None:
                free.remove(found)
                places[op] = found.holder
                continue
            try:
                places[op] = allocate(self._port, op.value.rows, op.value.cols, op.value.dtype, op.line)
            except TcmFullError:
                continue
        return places

    def _issue_in_phases(self, ops: list[RecordedOp], outputs: set[int]) -> bool:
        """Issues *ops* in phases that go over pieces of the rows. Returns False if the first phase does not fit."""
        phases = phases_of(ops, outputs)
        for number, stored in enumerate(phases):
            part = needed_ops(ops, stored)
            program, inputs, leaving = program_of(part, stored)
            if self._fits(program):
                self._submit(program, inputs, leaving, part[0].line)
            elif number == 0:
                return False
            else:
                self._issue_in_parts(part, stored)
        return len(phases) > 0

    def _issue_in_parts(self, ops: list[RecordedOp], outputs: set[int]) -> None:
        """Issues *ops* in several programs, each of as many ops as fit the registers of the PE. Stores *outputs*."""
        while ops:
            count = len(ops)
            program, inputs, leaving = program_of(ops, outputs)
            if count > 1 and not self._fits(program):
                count = self._most(ops, outputs)
                program, inputs, leaving = program_of(ops[:count], outputs | used_ops(ops[count:]))
            if count > 1 or not may_be_cut(ops[0].function.math) or self._fits(program):
                self._submit(program, inputs, leaving, ops[0].line)
            else:
                self._issue_cut(ops[0])
            ops = ops[count:]

    def _issue_cut(self, op: RecordedOp) -> None:
        """Issues *op*, which moves elements and does not fit, as programs on parts of it."""
        arguments = [_stored(each) for each in op.arguments]
        parts = parts_of(op.function.math, tuple(each.value for each in arguments), op.value, op.line, self._fits)
        if not parts:
            program, inputs, leaving = program_of([op], {id(op)})
            self._submit(program, inputs, leaving, op.line)  # raises the error of the plan
            return
        completions = [Completion() for _ in parts]
        value = op.value
        stored = self._store(op, completions[-1], self._allocate(value.rows, value.cols, value.dtype, op.line))
        for part, completion in zip(parts, completions, strict=True):
            command = part.command([each.matrix for each in arguments], stored.matrix)
            self._port.submit(command, op.line, completion, True)
        op.forget_arguments()

    def _submit(
        self,
        program: VectorProgram,
        inputs: list[VectorInput],
        leaving: list[RecordedOp],
        line: str,
        places: list[TcmHolder] | None = None,
    ) -> None:
        """Issues *program*. Its results go to *places*, or to fresh places. Raises TcmFullError and changes nothing."""
        completion = Completion()
        if places is None:
            places = [self._allocate(op.value.rows, op.value.cols, op.value.dtype, op.line) for op in leaving]
        stored = [self._store(op, completion, holder) for op, holder in zip(leaving, places, strict=True)]
        command = VectorCommand(
            program=program,
            inputs=tuple([each.matrix for each in inputs]),
            outputs=tuple([each.matrix for each in stored]),
        )
        self._port.submit(command, line, completion, True)
        for op in leaving:
            op.forget_arguments()

    def _store(self, op: RecordedOp, completion: Completion, holder: TcmHolder) -> VectorInput:
        """Stores the result of *op* in *holder*. A result that a cycle kept holds its TCM until the program ends."""
        handles = op.handles
        stored = VectorInput(holder.matrix, holder, completion)
        op.store_at(stored)
        if op.producer is not None:
            self._port.memory.pending.mark(holder.matrix, op.producer)
        for handle in handles:
            handle.arrive(holder.matrix, holder, completion)
        if not handles and op.alive:
            holder.keep()
        return stored

    def _fits(self, program: VectorProgram) -> bool:
        fitting = self._port.fitting
        if program in fitting:
            return True
        values = program.values
        inputs = tuple(Matrix.packed(each.rows, each.cols, each.dtype) for each in program.inputs)
        outputs = tuple(
            Matrix.packed(values[each].rows, values[each].cols, values[each].dtype) for each in program.outputs
        )
        fits = self._port.fits(VectorCommand(program=program, inputs=inputs, outputs=outputs))
        if fits:
            if len(fitting) >= _MOST_KEPT:
                fitting.clear()
            fitting.add(program)
        return fits

    def _most(self, ops: list[RecordedOp], outputs: set[int], most: int | None = None) -> int:
        """The number of the first *ops* that fit as one program, up to *most*, by default all but one; at least 1."""
        low, high = 1, len(ops) - 1 if most is None else most
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._fits(program_of(ops[:middle], outputs | used_ops(ops[middle:]))[0])
            low, high = (middle, high) if fits else (low, middle - 1)
        return low


def _is_known(arguments: tuple[_Source, ...], given: bool) -> bool | None:
    """Whether the integers *arguments* are known; *given* without arguments, and None where that depends on memory."""
    if not arguments:
        return given
    sides = [each.is_known for each in arguments]
    return False if False in sides else None if None in sides else True


def _stored(argument: _Source) -> VectorInput:
    assert argument.stored is not None, "an input"
    return argument.stored


def _packed(value: VectorValue, address: int) -> Matrix:
    return Matrix.packed(value.rows, value.cols, value.dtype, address)


def _bytes_of(place: VectorInput, nbytes: int) -> Stretch:
    start = int(place.matrix.address)
    return Stretch(start, start + nbytes, False)


def _arrived(op: RecordedOp) -> bool:
    """Whether *op* is a view of a stored value. Sets the place in the kernel's handles of the view."""
    place = op.stored if isinstance(op, RecordedView) else None
    if place is None:
        return False
    for handle in op.handles:
        if not handle.is_issued and place.holder is not None:
            handle.arrive(place.matrix, place.holder, place.completion)
    return True
