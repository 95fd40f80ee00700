"""Math in kernels: functions of values in TCM, and composites of functions over tensors in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kb_engine.language.along_axis import AxisFunctions
from kb_engine.language.math_results import Argument, broadcast, known_value, result_dtype, result_shape, sort_arguments
from kb_engine.memory.pending import Producer
from kb_engine.program.affine import sides_of
from kb_engine.program.arguments import dtype_named, tile_shape
from kb_engine.program.handles import CompositeHandle, Handle, LoadedTensor
from kb_engine.program.tensors import TensorRef
from kb_engine.program.transposed import Transposed
from kb_messages import (
    MATH_FUNCTIONS,
    DType,
    KernelError,
    MathAttributes,
    MathCommand,
    MathFunction,
    MathInput,
    TileShape,
)


class MathOps(AxisFunctions):
    """Functions of values in TCM. Each is one command of FETCH, MATH and STORE, which is done when the call returns.

    Arguments are handles, or numbers where the types say so; their shapes broadcast as numpy's do. The result lies in
    TCM and has the widest dtype among the arguments, floats before integers; numbers do not count, and a comparison
    gives bool. A result of floats is pending; a result of integers is known if the arguments are. The TCM of a result
    goes back with the last reference to it.

    Every function raises KernelError when TCM is full, for arguments that are not in TCM, for shapes that do not
    broadcast, and for integers of two types of one width.
    """

    def arithmetic(self, op: str, x: Argument, y: Argument | None = None) -> LoadedTensor:
        """The result of the Python operator that stands for the math function *op*."""
        return self._call(op, [x] if y is None else [x, y])

    def convert(self, x: Handle, dtype: DType | str) -> LoadedTensor:
        """*x* rounded to *dtype*. Raises KernelError for an unknown dtype."""
        return self._call("copy", [x], dtype=dtype_named(dtype, self._port.line()))

    def _call(
        self,
        op: str,
        arguments: Sequence[Argument],
        axis: int | None = None,
        dtype: DType | None = None,
        reverse: bool = False,
    ) -> LoadedTensor:
        line = self._port.line()
        values, scalars, scalar_at = sort_arguments(op, arguments, f"tl.{op}", line)
        sources = [self._loaded(value, op, line) for value in values]
        shape = result_shape(op, [value.shape for value in values], axis, line)
        dtype = dtype or result_dtype(op, [matrix.dtype for matrix in sources], line)
        holder = self._allocate(*sides_of(shape), dtype, line)
        target = holder.matrix
        # A vector is one row, and the last axis of any value is the axis along the row.
        axis = axis if axis is None or len(shape) == 2 else 1
        attributes = MathAttributes(op=op, axis=axis, scalars=scalars, scalar_at=scalar_at, reverse=reverse)
        known = known_value(attributes, values, shape, dtype)
        producer = None if known is not None else Producer(f"tl.{op}", line)
        result = LoadedTensor(target, shape, known, producer, self, holder)
        if producer is not None:
            self._port.memory.pending.mark(target, producer)
        command = MathCommand(
            math=attributes,
            inputs=tuple(MathInput(matrix=matrix, pinned=True) for matrix in sources),
            out=target,
            tile=TileShape(max(matrix.rows for matrix in sources), max(matrix.cols for matrix in sources), 1),
            out_pinned=True,
        )
        self._port.submit(command, line, result.completion, True)
        return result

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
            holder = self._allocate(rows, cols, result_dtype(op, [each.dtype for each in matrices], line), line)
            target = holder.matrix
        else:
            holder, target = None, self._memory_of(self._ref(out, "composite", line), line)
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
    """Whether a composite can be made of *function*: it has operands, two at most, and needs no whole axis."""
    return not function.has_axis and not function.generates and function.arity < 3
