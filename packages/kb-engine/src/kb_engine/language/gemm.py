"""Matrix products of kernels: of values in TCM, and of whole tensors with an epilogue.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kb_engine.language.accumulators import Accumulators, AccumulatorTensor
from kb_engine.language.math import MathOps
from kb_engine.language.vector.recorded import RecordedTensor
from kb_engine.memory.pending import Producer
from kb_engine.program.author.arguments import describe, dtype_named, loop_order_named, tile_shape
from kb_engine.program.port import Completion
from kb_engine.program.values.handles import CompositeHandle, Handle, LoadedTensor
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import SWAP, Transposed, refuse
from kb_messages import DType, EpilogueOp, EpilogueScope, GemmCommand, KernelError, LoopOrder, Matrix, TileShape

_SCOPES = tuple(scope.value for scope in EpilogueScope)
EpilogueOperand: TypeAlias = "TensorRef | Handle"
Factor: TypeAlias = "TensorRef | Handle | Transposed[Any]"


class Epilogue(Struct, frozen=True):
    """One op of an epilogue: its name, its scope, and its operands besides the values of the GEMM."""

    op: str
    scope: str
    operand: EpilogueOperand | None = None
    scalars: tuple[float, ...] = ()
    dtype: DType | str | None = None
    group: int | None = None


class EpilogueOps:
    """Functions of `tl` that make the ops of an epilogue.

    An op of `scope="output_tile"` runs once on each finished M x N output tile, in f32, before the tile is rounded to
    the output's dtype. An op of `scope="k_tile"` runs on the partial product of every tile along K. Operands are slices
    of tensors or loaded tensors. None of these calls takes time: the ops are part of the GEMM's command. Its errors
    come from `tl.composite`.
    """

    @staticmethod
    def bias(vector: EpilogueOperand, scope: str = "output_tile") -> Epilogue:
        """Adds *vector*: a row (N or 1 x N) to every row, or a column (M x 1) to every column."""
        return Epilogue("bias", scope, vector)

    @staticmethod
    def residual(matrix: EpilogueOperand, scope: str = "output_tile") -> Epilogue:
        """Adds *matrix*, M x N like the output."""
        return Epilogue("residual", scope, matrix)

    @staticmethod
    def scale(factor: float | EpilogueOperand, scope: str = "output_tile", group: int | None = None) -> Epilogue:
        """Multiplies by *factor*: a number, a row (1 x N) or a column (M x 1).

        A row has an element for each column of the output, a column an element for each row.
        With *group* and `scope="k_tile"`, *factor* has a row of N elements for every *group* elements along K, and a
        tile is *group* deep.
        """
        return _product("scale", factor, scope, group)

    @staticmethod
    def dequant(factor: float | EpilogueOperand, scope: str = "output_tile", group: int | None = None) -> Epilogue:
        """Multiplies as `scale`, and turns i32 sums of integers into f32."""
        return _product("dequant", factor, scope, group)

    @staticmethod
    def relu(scope: str = "output_tile") -> Epilogue:
        """`max(x, 0)`."""
        return Epilogue("relu", scope)

    @staticmethod
    def gelu(scope: str = "output_tile") -> Epilogue:
        """GELU, approximated by tanh."""
        return Epilogue("gelu", scope)

    @staticmethod
    def silu(scope: str = "output_tile") -> Epilogue:
        """`x * sigmoid(x)`."""
        return Epilogue("silu", scope)

    @staticmethod
    def cast(dtype: DType | str, scope: str = "output_tile") -> Epilogue:
        """Converts to *dtype* by the rules of `.to`. The ops after it work on the converted values."""
        return Epilogue("cast", scope, dtype=dtype)


def _product(op: str, factor: float | EpilogueOperand, scope: str, group: int | None) -> Epilogue:
    if isinstance(factor, (int, float)):
        return Epilogue(op, scope, scalars=(float(factor),), group=group)
    return Epilogue(op, scope, factor, group=group)


class GemmOps(MathOps):
    """`tl.dot`, `tl.trans`, and the GEMM of `tl.composite`."""

    def dot(
        self,
        a: Handle | Transposed[Handle],
        b: Handle | Transposed[Handle],
        acc: Handle | float | None = None,
        *,
        out_dtype: DType | str | None = None,
    ) -> LoadedTensor:
        """`a @ b` of two values in TCM, M x K and K x N, done when the call returns. Either may be transposed (`x.T`).

        One command of FETCH, GEMM and STORE. The result is pending, in TCM. Its dtype is *out_dtype*, by default the
        accumulator's: f32, or i32 of integers.

        With *acc*, M x N of the accumulator's dtype, `acc + a @ b`. The result stays in the register file, without a
        STORE, until something needs it in TCM; `acc = tl.dot(a, b, acc)` adds to it there, without a FETCH. The number
        0 begins such a sum, as `tl.zeros` does. A result that does not fit the register file is stored at once.

        Values of three or more dimensions, equal in all but the last two, are multiplied matrix by matrix, with a
        command for each.

        Raises KernelError when TCM is full, for shapes that do not fit together, for dtypes that the machine does not
        multiply, for an accumulator of another dtype, and for arguments that are not in TCM.
        """
        line = self._port.line()
        if isinstance(a, Handle) and isinstance(b, Handle) and len(a.shape) == len(b.shape) > 2:
            return self._dot_of_entries(a, b, acc, out_dtype, line)
        if acc is not None:
            self._later.issue()
        (left, transpose_a), (right, transpose_b) = self._loaded_factor(a, line), self._loaded_factor(b, line)
        summed = left.dtype.accumulator
        dtype = summed if out_dtype is None else dtype_named(out_dtype, line)
        m, k, n = *_turned(left, transpose_a), _turned(right, transpose_b)[1]
        command = GemmCommand(
            a=left,
            b=right,
            out=Matrix.packed(m, n, summed),
            tile=TileShape(m, n, k),
            a_pinned=True,
            b_pinned=True,
            out_pinned=True,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
        )
        tile = self._sums.tile(command)
        if acc is not None:
            before = self._accumulator(acc, command.out, dtype, line)
            if tile is not None:
                return self._sums.dot(replace(command, tile=tile), (a, b), before, line, self)
            command = replace(command, acc=None if before is None else self._loaded(before, "dot", line))
        holder = self._allocate(m, n, dtype, line)
        command = replace(command, out=holder.matrix, tile=command.tile if tile == command.tile else None)
        producer = Producer("tl.dot", line)
        result = LoadedTensor(holder.matrix, (m, n), None, producer, self, holder)
        self._port.memory.pending.mark(holder.matrix, producer)
        self._port.submit(command, line, result.completion, True)
        return result

    def _dot_of_entries(
        self, a: Handle, b: Handle, acc: Handle | float | None, out_dtype: DType | str | None, line: str
    ) -> LoadedTensor:
        """`dot` of two stacks of matrices. The results lie one after the other in TCM."""
        left, right = self._loaded(a, "dot", line), self._loaded(b, "dot", line)
        (*outer, m, k), (*outer_right, k_right, cols) = a.shape, b.shape
        n = prod(outer)
        if (outer, k) != (outer_right, k_right):
            shapes = [" x ".join(map(str, each.shape)) for each in (a, b)]
            raise KernelError(line, f"tl.dot of {shapes[0]} and {shapes[1]}", "B x M x K and B x K x N")
        summed = left.dtype.accumulator
        dtype = summed if out_dtype is None else dtype_named(out_dtype, line)
        whole = Matrix.packed(n * m, cols, summed)
        added = None if acc is None else self._accumulator(acc, whole, dtype, line)
        before = None if added is None else self._loaded(added, "dot", line)
        holder = self._allocate(n * m, cols, dtype, line)
        producer = Producer("tl.dot", line)
        result = LoadedTensor(holder.matrix, (*outer, m, cols), None, producer, self, holder)
        self._port.memory.pending.mark(holder.matrix, producer)
        for number in range(n):
            command = GemmCommand(
                a=left.part(number * m, 0, m, k),
                b=right.part(number * k, 0, k, cols),
                out=holder.matrix.part(number * m, 0, m, cols),
                tile=TileShape(m, cols, k),
                a_pinned=True,
                b_pinned=True,
                out_pinned=True,
                acc=None if before is None else before.part(number * m, 0, m, cols),
            )
            if self._sums.tile(command) != command.tile:
                command = replace(command, tile=None)
            completion = result.completion if number == n - 1 else Completion()
            self._port.submit(command, line, completion, True)
        return result

    @cached_property
    def _sums(self) -> Accumulators:
        """The results of `dot` that lie in registers."""
        return Accumulators(self._port, self._later)

    def _accumulator(self, acc: object, wanted: Matrix, dtype: DType, line: str) -> Handle | None:
        """The handle of *acc*, to which a product like *wanted* is added; None for zeros. Raises KernelError for a
        value that does not fit the product."""
        if isinstance(acc, RecordedTensor) and acc.is_zeros(wanted):
            acc = 0
        needs = f"a value in TCM, {wanted.rows} x {wanted.cols} of {wanted.dtype}, as sums of these factors are"
        if not isinstance(acc, Handle) and (not isinstance(acc, (int, float)) or acc):
            raise KernelError(line, f"tl.dot with acc = {describe(acc)}", f"{needs}, or 0")
        if isinstance(acc, Handle) and acc.operators is not self:
            self._check_owner(acc, line)
        found = acc.place if isinstance(acc, Handle) else wanted
        if isinstance(acc, Handle) and (acc.freed or not isinstance(acc, AccumulatorTensor)):
            self._loaded(acc, "dot", line)
        if (found.rows, found.cols, found.dtype) != (wanted.rows, wanted.cols, wanted.dtype):
            got = f"tl.dot with acc of {found.rows} x {found.cols} {found.dtype}"
            raise KernelError(line, got, needs, f"acc.to('{wanted.dtype}') has that type")
        if dtype is not wanted.dtype:
            raise KernelError(line, f"tl.dot with acc and out_dtype={dtype}", f"{wanted.dtype}, as acc has")
        return acc if isinstance(acc, Handle) else None

    def trans(self, x: Factor) -> Factor:
        """*x* with rows and columns exchanged, the same as `x.T`. Nothing moves: a GEMM reads the stored bytes
        transposed.

        Math of a transposed value begins with an op that puts the elements in order.

        Raises KernelError for a vector, and for anything but a tensor.
        """
        if not isinstance(x, (TensorRef, Handle, Transposed)):
            raise KernelError(self._port.line(), f"tl.trans of {describe(x)}", "a tensor")
        turned: Factor = x.T
        return turned

    def _gemm_composite(
        self,
        a: Factor,
        b: Factor,
        out: TensorRef | None,
        epilogue: Sequence[Epilogue],
        tile: object,
        b_stream: bool,
        loop_order: LoopOrder | str | None,
        line: str,
    ) -> CompositeHandle:
        ops = () if type(epilogue) is tuple and not epilogue else self._epilogue(epilogue, line)
        stored = _stored(a), _stored(b)
        (left, transpose_a), (right, transpose_b) = self._factor(a, "a", line), self._factor(b, "b", line)
        shape = tile_shape(tile, line)
        if out is None:
            m, n = _turned(left, transpose_a)[0], _turned(right, transpose_b)[1]
            holder = self._allocate(m, n, _result_dtype(left.dtype, ops), line)
            target = holder.matrix
        else:
            if type(out) is not TensorRef:
                refuse(out, "out =", line, SWAP)
                out = self._ref(out, "composite", line)
            self._check_written(out, "composite", line)
            holder, target = None, self._matrix_of(out, line)
        command = GemmCommand(
            a=left,
            b=right,
            out=target,
            tile=shape,
            a_pinned=isinstance(stored[0], Handle),
            b_pinned=isinstance(stored[1], Handle),
            out_pinned=out is None,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            b_stream=b_stream,
            epilogue=ops,
            loop_order=loop_order_named(loop_order, line),
        )
        handle = CompositeHandle(target, holder, Producer("composite gemm", line), self)
        self._start(command, (*stored, *(op.operand for op in epilogue)) if ops else stored, handle, line)
        return handle

    def _factor(self, value: object, name: str, line: str) -> tuple[Matrix, bool]:
        """The place of a factor, and whether the GEMM reads it transposed."""
        if type(value) is TensorRef:
            return self._matrix_of(value, line), False
        return self._operand(_stored(value), name, line), isinstance(value, Transposed)

    def _loaded_factor(self, value: object, line: str) -> tuple[Matrix, bool]:
        stored = _stored(value)
        if isinstance(stored, Handle) and len(stored.shape) > 2:
            sizes = " x ".join(map(str, stored.shape))
            raise KernelError(line, f"tl.dot of {sizes}", "two matrices, or two values of as many dimensions")
        return self._loaded(stored, "dot", line), isinstance(value, Transposed)

    def _epilogue(self, epilogue: object, line: str) -> tuple[EpilogueOp, ...]:
        given = tuple(epilogue) if isinstance(epilogue, (tuple, list)) else (epilogue,)
        return tuple(self._epilogue_op(op, line) for op in given)

    def _epilogue_op(self, op: object, line: str) -> EpilogueOp:
        if not isinstance(op, Epilogue):
            raise KernelError(line, f"{describe(op)} in an epilogue", "a tuple of ops like (tl.bias(row), tl.relu())")
        if op.scope not in _SCOPES:
            raise KernelError(line, f"tl.{op.op} with scope={op.scope!r}", " or ".join(map(repr, _SCOPES)))
        if op.group is not None and not isinstance(op.group, int):
            raise KernelError(line, f"tl.{op.op} with group={op.group!r}", "a number of elements along K")
        return EpilogueOp(
            op=op.op,
            scope=EpilogueScope(op.scope),
            operand=None if op.operand is None else self._operand(op.operand, f"the operand of tl.{op.op}", line),
            operand_pinned=isinstance(op.operand, Handle),
            scalars=op.scalars,
            dtype=None if op.dtype is None else dtype_named(op.dtype, line),
            group=op.group,
        )


def _stored(value: Any) -> Any:
    """The stored matrix behind a factor, which may be transposed."""
    return value.of if isinstance(value, Transposed) else value


def _turned(stored: Matrix, transposed: bool) -> tuple[int, int]:
    """Rows and columns of a factor in the product."""
    return (stored.cols, stored.rows) if transposed else (stored.rows, stored.cols)


def _result_dtype(dtype: DType, epilogue: tuple[EpilogueOp, ...]) -> DType:
    """The dtype of a result without `out`: that of the operands, i32 of integers, or that of a conversion."""
    result = dtype if dtype.is_float else dtype.accumulator
    for op in epilogue:
        if op.op == "dequant" and not result.is_float:
            result = DType.F32
        result = op.dtype or result
    return result
