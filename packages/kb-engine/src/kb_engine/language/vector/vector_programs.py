"""Records the math of a kernel, and issues what is needed of it as one command, a vector program.

A program closes when somebody asks where a value lies: a store, a dot, a composite, a look at a pending value,
`tl.wait`. It computes that value and all that the value depends on. Other values that the kernel can still name are
left for later: most are never asked for. Small ones are stored along if they are computed, because that is cheaper
than to compute them again. A value that depends on one that was left by an earlier program is stored, so that no chain
of values grows from program to program.

Where TCM is full, the program closes too: what the kernel can name is computed, in the place of inputs that nobody
needs then, and the other inputs give their TCM back.
"""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

from kb_engine.language.vector.closings import Closing, closing_of, inputs_to_replace, needed_ops, phases_of, used_ops
from kb_engine.language.vector.op_pieces import may_be_cut, parts_of
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
from kb_messages import (
    DType,
    Matrix,
    VectorCommand,
    VectorProgram,
    VectorValue,
)

MOST_OPS: Final = 64
"""Recorded ops. The next one has all of them issued that the kernel can name."""
_MOST_KEPT: Final = 4096
_FIX: Final = "; tl.wait(x) computes x at once, and what x is computed from goes back"

_Source = VectorInput | RecordedOp


class VectorPrograms:
    """The program that is open, of one kernel."""

    def __init__(self, port: ProgramPort) -> None:
        self._port = port
        self._ops: list[RecordedOp] = []
        self._inputs: dict[tuple[int, int, int, int, DType], VectorInput] = {}

    def recorded(self, value: Handle) -> RecordedOp | None:
        """The op that makes *value*; None for a value that lies somewhere."""
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
        """The result of *function*, to be computed when it is needed."""
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
        """*of*, which is recorded, row by row as a value of *shape*. Constants are made in the new shape."""
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
        """As `kb_engine.program.language_base.allocate`. A full TCM gets back what only ops need.

        What the ops are for that the kernel can name is computed first.
        """
        try:
            return self._allocate(rows, cols, dtype, line)
        except TcmFullError:
            fix = "" if self._close_in_place(None) or not self._ops else _FIX
        return allocate(self._port, rows, cols, dtype, line, fix)

    def _allocate(self, rows: int, cols: int, dtype: DType, line: str) -> TcmHolder:
        """As `allocate`, but a full TCM gets back only what ops hold that nobody needs."""
        try:
            return allocate(self._port, rows, cols, dtype, line)
        except TcmFullError:
            self._ops, self._inputs = needed_ops(self._ops, {id(op) for op in self._ops if op.alive}), {}
        return allocate(self._port, rows, cols, dtype, line)

    def recipe(self, op: RecordedOp) -> Recipe:
        """How to compute the result of *op*, without a command that does."""
        asked = {id(op.root)}
        program, inputs, _ = program_of(needed_ops(self._ops, asked), asked)
        return Recipe(program, tuple(each.matrix for each in inputs))

    def close(self, asked: RecordedOp | None = None) -> None:
        """Issue what *asked* needs, or, with None, all that the kernel can name."""
        self._issue_needed(asked)
        if self._ops:
            # Programs in parts and phases store what other parts read, also where the kernel can name it.
            self._ops = [op for op in self._ops if not (op.stored if type(op) is RecordedOp else _arrived(op))]
        if isinstance(asked, RecordedView):
            _arrived(asked)

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
            if not self._close_in_place(asked):
                raise

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
        """Issue *asked*, and what the kernel can name and has a place for, in one program, in a TCM that is full.

        False if that takes several programs, or if *asked* or everything neither fits what is free nor has an input to
        replace.
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

    def _places(self, leaving: list[RecordedOp], free: list[VectorInput]) -> dict[RecordedOp, TcmHolder]:
        """Where the results *leaving* go: to places of *free* inputs, or to fresh ones. There may be none for some."""
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
        """Issue *ops*, whose rows do not fit, in phases that go over pieces of the rows. False if there is one phase,
        or the first does not fit."""
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
        """Issue *ops* in as many programs as it takes for each to fit."""
        while ops:
            ops = self._issue(ops, outputs)

    def _issue(self, ops: list[RecordedOp], outputs: set[int]) -> list[RecordedOp]:
        """Issue the first *ops*, as many as the PE can hold in registers, and store *outputs*. Returns the others."""
        count = len(ops)
        program, inputs, leaving = program_of(ops, outputs)
        if count > 1 and not self._fits(program):
            count = self._most(ops, outputs)
            program, inputs, leaving = program_of(ops[:count], outputs | used_ops(ops[count:]))
        if count > 1 or not may_be_cut(ops[0].function.math) or self._fits(program):
            self._submit(program, inputs, leaving, ops[0].line)
        else:
            self._issue_cut(ops[0])
        return ops[count:]

    def _issue_cut(self, op: RecordedOp) -> None:
        """Issue *op*, whose elements come from other places and which does not fit, as programs on parts of it."""
        arguments = [_stored(each) for each in op.arguments]
        parts = parts_of(op.function.math, tuple(each.value for each in arguments), op.value, op.line, self._fits)
        if not parts:
            program, inputs, leaving = program_of([op], {id(op)})
            self._submit(program, inputs, leaving, op.line)  # says what does not fit
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
        """Issue *program*, whose results go to *places*; to fresh ones without. A TCM without room changes nothing."""
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
        """Put the result of *op* to *holder*. What a collected cycle kept holds its TCM until the program ends."""
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

    def _most(self, ops: list[RecordedOp], outputs: set[int]) -> int:
        """How many of the first *ops* fit as one program; 1 if none does."""
        low, high = 1, len(ops) - 1
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._fits(program_of(ops[:middle], outputs | used_ops(ops[middle:]))[0])
            low, high = (middle, high) if fits else (low, middle - 1)
        return low


def _is_known(arguments: tuple[_Source, ...], given: bool) -> bool | None:
    """Whether integers of *arguments* are known: for *given* without any. None where that follows from memory."""
    if not arguments:
        return given
    sides = [each.is_known for each in arguments]
    return False if False in sides else None if None in sides else True


def _stored(argument: _Source) -> VectorInput:
    assert argument.stored is not None, "an input"
    return argument.stored


def _arrived(op: RecordedOp) -> bool:
    """Whether *op* is a view of a value that a command stores. The kernel's handles are told where it lies."""
    place = op.stored if isinstance(op, RecordedView) else None
    if place is None:
        return False
    for handle in op.handles:
        if not handle.is_issued and place.holder is not None:
            handle.arrive(place.matrix, place.holder, place.completion)
    return True
