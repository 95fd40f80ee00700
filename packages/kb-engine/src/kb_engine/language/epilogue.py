"""Ops of an epilogue, for `tl.composite("gemm", a, b, out=c, epilogue=(tl.bias(d), tl.relu()))`."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from kb_engine.program.values.handles import Handle
from kb_engine.program.values.tensors import TensorRef
from kb_messages import DType, EpilogueScope

EpilogueOperand: TypeAlias = "TensorRef | Handle"


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


SCOPES = tuple(scope.value for scope in EpilogueScope)
