"""Epilogue ops as kernels write them: `tl.composite("gemm", a, b, out=c, epilogue=(tl.bias(d), tl.relu()))`."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from kb_engine.program.handles import Handle
from kb_engine.program.tensors import TensorRef
from kb_messages import DType, EpilogueScope

Operand: TypeAlias = "TensorRef | Handle"


class Epilogue(Struct, frozen=True):
    """One op: its name, when it runs, and what it works with besides the GEMM's values."""

    op: str
    scope: str
    operand: Operand | None = None
    scalars: tuple[float, ...] = ()
    dtype: DType | str | None = None
    group: int | None = None


class EpilogueOps:
    """The constructors, as functions of `tl`.

    `scope="output_tile"` runs an op once on each finished output tile, in f32 and before the result is rounded;
    `"k_tile"` runs it on the partial product of every tile over K. Operands are slices of tensors or loaded tensors.
    """

    @staticmethod
    def bias(vector: Operand, scope: str = "output_tile") -> Epilogue:
        """Add a row of N elements to every row, or a column of M to every column."""
        return Epilogue("bias", scope, vector)

    @staticmethod
    def residual(matrix: Operand, scope: str = "output_tile") -> Epilogue:
        """Add a matrix of the output's shape."""
        return Epilogue("residual", scope, matrix)

    @staticmethod
    def scale(factor: float | Operand, scope: str = "output_tile", group: int | None = None) -> Epilogue:
        """Multiply by a number, each column by its element of a row (1 x N), or each row by its of a column (M x 1).

        With *group* and `scope="k_tile"`, *factor* has a row of N for each *group* elements along K, and a tile is as
        deep as a group.
        """
        return _product("scale", factor, scope, group)

    @staticmethod
    def dequant(factor: float | Operand, scope: str = "output_tile", group: int | None = None) -> Epilogue:
        """As `scale`, but sums of integers become f32."""
        return _product("dequant", factor, scope, group)

    @staticmethod
    def relu(scope: str = "output_tile") -> Epilogue:
        """`max(x, 0)`."""
        return Epilogue("relu", scope)

    @staticmethod
    def gelu(scope: str = "output_tile") -> Epilogue:
        """GELU in its approximation by tanh."""
        return Epilogue("gelu", scope)

    @staticmethod
    def silu(scope: str = "output_tile") -> Epilogue:
        """`x * sigmoid(x)`."""
        return Epilogue("silu", scope)

    @staticmethod
    def cast(dtype: DType | str, scope: str = "output_tile") -> Epilogue:
        """Round to *dtype*; the ops that follow work on the rounded values."""
        return Epilogue("cast", scope, dtype=dtype)


def _product(op: str, factor: float | Operand, scope: str, group: int | None) -> Epilogue:
    if isinstance(factor, (int, float)):
        return Epilogue(op, scope, scalars=(float(factor),), group=group)
    return Epilogue(op, scope, factor, group=group)


SCOPES = tuple(scope.value for scope in EpilogueScope)
