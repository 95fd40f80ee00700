"""Math of kernels: functions of values in TCM, and composites of functions over tensors in memory.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kb_engine.language.call_rules import (
    Argument,
    broadcast,
    call_rule,
    filled_integers,
    is_wide,
    known_value,
    result_dtype,
    sort_arguments,
    spreads,
    steps_of,
    wrapped_at,
)
from kb_engine.language.deferred_calls import DeferredCalls
from kb_engine.language.functions import AxisFunctions
from kb_engine.language.vector.recorded import RecordedOp, RecordedTensor, VectorInput, recorded_function
from kb_engine.language.vector.vector_programs import VectorPrograms
from kb_engine.memory.pending import Producer
from kb_engine.program.author.arguments import DTYPES, dtype_named, tile_shape
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.affine import Affine, HalfSpace, IndexBox, sides_of
from kb_engine.program.values.handles import CompositeHandle, Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import LaidOutOperators, Transposed
from kb_messages import (
    MATH_FUNCTIONS,
    DType,
    KernelError,
    MathAttributes,
    MathCommand,
    MathFunction,
    MathInput,
    VectorValue,
    scalar_of,
)


class MathOps(AxisFunctions):
    """Functions of values in TCM, and of results of other functions.

    A call is recorded, and takes no time. A store, a dot, or another use of the place of a result closes the program of
    recorded calls and issues it as one command: it fetches the inputs of the result, computes all that the result
    depends on in registers, and stores the result.

    Arguments are handles, numbers, and known integers and masks, where the types allow them; their shapes broadcast by
    numpy's rules. The dtype of the result is that of Triton (`call_rules`); numbers do not count unless they are of a
    higher kind. A result of floats is pending; a result of integers is known if the arguments are.

    Every function raises KernelError for arguments that are not in TCM, and for shapes that do not broadcast.
    """

    @cached_property
    def _programs(self) -> VectorPrograms:
        """The recorded calls that are not issued yet."""
        return VectorPrograms(self._port)

    def _allocate(self, rows: int, cols: int, dtype: DType, line: str) -> TcmHolder:
        return self._programs.allocate(rows, cols, dtype, line)

    @cached_property
    def _later(self) -> DeferredCalls:
        """The deferred calls of the program."""
        return DeferredCalls(self._port)

    def arithmetic(self, op: str, x: Argument, y: Argument | None = None) -> LoadedTensor:
        """The result of the Python operator that stands for the math function *op*."""
        return self._call(op, [x] if y is None else [x, y])

    def convert(self, x: Handle, dtype: DType | str) -> LoadedTensor:
        """*x* as *dtype*. Raises KernelError for an unknown dtype."""
        given: object = dtype
        named = DTYPES.get(given) if isinstance(given, str) else None
        return self._call("copy", [x], dtype=named or dtype_named(given, self._port.line()))

    def full(self, shape: tuple[int, ...], value: float, dtype: DType | str) -> LoadedTensor:
        """A tensor of *shape* whose elements are all *value*. It is computed where it is needed.

        Raises KernelError for a shape that is no tuple of positive sizes, an unknown dtype, and a value that *dtype*
        cannot represent.
        """
        line = self._port.line()
        wanted = dtype_named(dtype, line)
        value, sizes = plain(value), cast("object", shape)
        if not (isinstance(sizes, tuple) and all(isinstance(n, int) and n > 0 for n in sizes)):
            raise KernelError(line, f"a tensor of shape {shape!r}", "positive sizes as a tuple")
        shape = tuple(map(plain, shape))
        if not (wanted.is_float or float(value).is_integer()):
            raise KernelError(line, f"{value!r} as {wanted}", "a number that the dtype has")
        if is_wide(value) and not wanted.is_float:
            return self._call("copy", [self._wide(value, shape, line)], dtype=wanted)
        return self._record(MathAttributes(op="fill", scalars=(scalar_of(value),)), (), shape, wanted, None, line)

    def zeros(self, shape: tuple[int, ...], dtype: DType | str) -> LoadedTensor:
        """A tensor of *shape* whose elements are all 0. Raises KernelError as `full` does."""
        return self.full(shape, 0, dtype)

    def reordered(self, value: Handle, order: tuple[int, ...]) -> LoadedTensor:
        """*value* with its axes in *order*, as a value of its own."""
        steps, shape = steps_of(value.shape), tuple(value.shape[axis] for axis in order)
        return self._ordered("rearrange", [value], shape, tuple(steps[axis] for axis in order), shape)

    def sliced(self, value: Handle, key: tuple[Any, ...]) -> LoadedTensor:
        """The elements of *value* at *key*, as a value of its own.

        Raises KernelError for an index beyond the value, and for an empty slice.
        """
        found = Affine(value.shape, 0, steps_of(value.shape)).at(key)
        if found is None:
            sizes = " x ".join(map(str, value.shape))
            raise KernelError(self._port.line(), f"a slice beyond a value of {sizes}", "at least one of its elements")
        return self._ordered("rearrange", [value], found.shape, found.steps, found.shape, found.base)

    def _ordered(
        self,
        op: str,
        values: Sequence[Handle],
        lengths: tuple[int, ...],
        strides: tuple[int, ...],
        shape: tuple[int, ...],
        first: int = 0,
    ) -> LoadedTensor:
        """The elements of *values* in the order of *lengths* and *strides*."""
        math = MathAttributes(op=op, lengths=lengths, strides=strides, first=first)
        return self._laid(math, values, shape, values[0].dtype)

    def _laid(
        self, math: MathAttributes, values: Sequence[Handle], shape: tuple[int, ...], dtype: DType
    ) -> LoadedTensor:
        """The result, of *shape* and *dtype*, of a function that does not determine either."""
        line = self._port.line()
        return self._record(
            math, self._sources(values, math.op, line), shape, dtype, known_value(math, values, shape, dtype), line
        )

    def _call(
        self,
        op: str,
        arguments: Sequence[Argument],
        axis: int | None = None,
        dtype: DType | None = None,
        reverse: bool = False,
    ) -> LoadedTensor:
        line = self._port.line()
        given: list[Argument] = []
        tensors: list[Handle] = []
        for each in arguments:
            if type(each) is float or type(each) is int:
                given.append(each)
                continue
            operand = each if isinstance(each, Handle) else self._as_operand(each, line)
            given.append(operand)
            if isinstance(operand, Handle):
                tensors.append(operand)
        rule = call_rule(op, given, axis, dtype, reverse, line)
        if rule.has_wide:
            whole = [self._wide(each, (1,), line) if is_wide(each) else each for each in given]
            return self._call(op, whole, axis, rule.function.value.dtype, reverse)
        if rule.in_f32:
            tensors = [self._in_f32(each, op == "where" and each is given[0]) for each in tensors]
        if len(rule.shape) > 2 and axis is None:
            tensors = [self._spread(each, rule.shape, op, line) for each in tensors]
        function, known = rule.function, None
        if rule.may_be_known:
            known = known_value(function.math, tensors, rule.shape, function.value.dtype)
        sources = self._sources(tensors, op, line)
        found = self._programs.record(function, sources, rule.shape, known, self, line)
        if known is not None and self._port.on_wrapped_index is not None:
            found.note_wrap(wrapped_at(function.math, tensors, function.value.dtype, line))
        return found

    def _spread(self, value: Handle, shape: tuple[int, ...], op: str, line: str) -> Handle:
        """*value* with its rows repeated to match a value of *shape*. One row stays one row."""
        for group, wider in spreads(value.shape, shape):
            attributes = MathAttributes(op="spread", group=group)
            known = known_value(attributes, [value], wider, value.dtype)
            value = self._record(attributes, self._sources([value], op, line), wider, value.dtype, known, line)
        return value

    def _as_operand(self, argument: Argument, line: str) -> Argument:
        """Converts known integers, and values whose elements do not lie in their order, to values of their own."""
        if isinstance(argument, HostValue):
            return self._index(argument, line)
        given: Argument = plain(argument)
        return given.laid_out() if isinstance(given, LaidOutOperators) else given

    def _record(
        self,
        math: MathAttributes,
        sources: tuple[VectorInput | RecordedOp, ...],
        shape: tuple[int, ...],
        dtype: DType,
        known: npt.NDArray[Any] | None,
        line: str,
    ) -> LoadedTensor:
        function = recorded_function(math, VectorValue(*sides_of(shape), dtype))
        return self._programs.record(function, sources, shape, known, self, line)

    def _sources(self, values: Sequence[Handle], op: str, line: str) -> tuple[VectorInput | RecordedOp, ...]:
        """The sources of *values*, the arguments of *op*: recorded ops, or inputs in TCM."""
        found: list[VectorInput | RecordedOp] = []
        for value in values:
            recorded = value.open_op if isinstance(value, RecordedTensor) else None
            if recorded is not None and value.operators is not self:
                self._check_owner(value, line)
            found.append(recorded or self._programs.input(value, self._loaded(value, op, line)))
        return tuple(found)

    def _wide(self, number: int, shape: tuple[int, ...], line: str) -> LoadedTensor:
        """A tensor of *shape* of a whole number that f64 cannot represent, as i64 modulo 2^64, made of two halves."""
        if not -(2**63) <= number < 2**64:
            raise KernelError(line, f"the number {number}", "one of 64 bits")
        high = (number >> 32) - (number >= 2**63) * 2**32
        fill = MathAttributes(op="fill", scalars=(scalar_of(high),))
        word = self._record(fill, (), shape, DType.I64, filled_integers(high, shape), line)
        return self._call("bit_or", [self._call("lshift", [word, 32]), number & 0xFFFFFFFF])

    def _in_f32(self, value: Handle, is_condition: bool) -> Handle:
        """*value* converted to f32, unless it has floats or is a condition."""
        if value.dtype.is_float or is_condition:
            return value
        return self._call("copy", [value], dtype=DType.F32)

    def _index(self, known: HostValue, line: str) -> LoadedTensor:
        """Known integers or a mask as a tensor. Raises KernelError for a value without a form."""
        form = known.form
        if len(known.shape) not in (1, 2) or form is None:
            raise KernelError(
                line, f"{known} as an operand", "integers computed from tl.arange by + - *, or a mask of them"
            )
        if isinstance(form, Affine):
            dtype = known.integers
            steps = form.steps if len(form.steps) == 2 else (0, *form.steps)
            scalars = tuple(scalar_of(each) for each in (form.base, *steps))
            values = form.data().astype(np.int32 if dtype is DType.I32 else np.int64)
            return self._record(MathAttributes(op="index", scalars=scalars), (), form.shape, dtype, values, line)
        if isinstance(form, HalfSpace):
            return self._call("ge", [self._index(HostValue.of(form.integers, self._port.line), line), 0])
        return self._box(form, line)

    def _box(self, box: IndexBox, line: str) -> LoadedTensor:
        """A mask whose true places are a box, from the indices along each axis."""
        found = None
        for axis, (start, end) in enumerate(box.intervals):
            index = HostValue.of(Affine.along(box.shape, axis), self._port.line)
            for op, bound in (("ge", start), ("lt", end)):
                if bound == (0 if op == "ge" else box.shape[axis]) and not (found is None and axis == 0 and op == "ge"):
                    continue
                inside = self._call(op, [self._index(index, line), bound])
                found = inside if found is None else self._call("and", [found, inside])
        assert found is not None
        return found

    def _math_composite(
        self, op: str, arguments: Sequence[Argument | Transposed[Any]], out: TensorRef | None, tile: object, line: str
    ) -> CompositeHandle:
        function = MATH_FUNCTIONS.get(op)
        if function is None or not _is_elementwise(function):
            known = [name for name, each in MATH_FUNCTIONS.items() if _is_elementwise(each)]
            raise KernelError(line, f"tl.composite({op!r})", f"'gemm', {', '.join(map(repr, known))}")
        values, scalars, scalar_at = sort_arguments(op, arguments, f"tl.composite({op!r})", line)
        matrices = [self._operand(value, name, line) for value, name in zip(values, "ab", strict=False)]
        if out is None:
            rows, cols = broadcast([(matrix.rows, matrix.cols) for matrix in matrices], op, line)
            holder = self._allocate(rows, cols, result_dtype(op, [each.dtype for each in matrices]), line)
            target = holder.matrix
        else:
            out = self._ref(out, "composite", line)
            self._check_written(out, "composite", line)
            holder, target = None, self._matrix_of(out, line)
        command = MathCommand(
            math=MathAttributes(op=op, scalars=scalars, scalar_at=scalar_at),
            inputs=tuple(
                MathInput(matrix=matrix, pinned=isinstance(value, Handle))
                for matrix, value in zip(matrices, values, strict=True)
            ),
            out=target,
            tile=tile_shape(tile, line, flat=True),
            out_pinned=out is None,
        )
        handle = CompositeHandle(target, holder, Producer(f"composite {op}", line), self)
        self._start(command, values, handle, line)
        return handle


def _is_elementwise(function: MathFunction) -> bool:
    """Whether *function* can be a composite: it is elementwise and has at most two operands."""
    return function.is_elementwise and function.arity < 3
