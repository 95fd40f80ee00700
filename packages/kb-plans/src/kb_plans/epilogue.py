"""The epilogue ops of a GEMM: the known ops, the scopes where each is allowed, and the MATH stage of each."""

from __future__ import annotations

from typing import Final, NamedTuple

from kb_messages import Axis, DType, EpilogueOp, EpilogueScope, MathAttributes, Matrix, PlanError


class _Arguments(NamedTuple):
    """The shapes that an operand may have (`row`: 1 x N, `column`: M x 1, `matrix`: M x N), or a scalar instead."""

    operands: tuple[str, ...] = ()
    scalar: bool = False

    def __str__(self) -> str:
        shapes = " or ".join({"row": "1 x N", "column": "M x 1", "matrix": "M x N"}[each] for each in self.operands)
        named = [f"an operand of {shapes}"] * bool(shapes) + ["one scalar"] * self.scalar
        return ", or ".join(named) or "neither operand nor scalar"


class _Meaning(NamedTuple):
    """The math function of an op.

    `not_on_k_tile` is the reason why partial products cannot take the op; None if they can.
    """

    math: str
    arguments: _Arguments
    not_on_k_tile: str | None


_ADDED_OFTEN = "it would be added once for each tile over K"
_NOT_LINEAR = "it is not linear: of partial products it is not that of their sum"

EPILOGUE_OPS: Final[dict[str, _Meaning]] = {
    "bias": _Meaning("add", _Arguments(("row", "column")), _ADDED_OFTEN),
    "residual": _Meaning("add", _Arguments(("matrix",)), _ADDED_OFTEN),
    "scale": _Meaning("mul", _Arguments(("row", "column"), scalar=True), None),
    "dequant": _Meaning("mul", _Arguments(("row", "column"), scalar=True), None),
    "relu": _Meaning("relu", _Arguments(), _NOT_LINEAR),
    "gelu": _Meaning("gelu", _Arguments(), _NOT_LINEAR),
    "silu": _Meaning("silu", _Arguments(), _NOT_LINEAR),
    "cast": _Meaning("copy", _Arguments(), "partial products stay in the accumulator's type until they are summed"),
}
"""Every op by its name in `EpilogueOp`. The finished sum (`output_tile`) can take each of them."""

_FLOAT_ONLY: Final = ("gelu", "silu")


class EpilogueMath(NamedTuple):
    """A checked op: the function of its MATH stage, its operand or None, and the type of its result in registers."""

    attributes: MathAttributes
    operand: Matrix | None
    pinned: bool
    dtype: DType
    by_k: bool
    """Whether the operand has a row for each tile over K."""


def resolve(
    epilogue: tuple[EpilogueOp, ...], scope: EpilogueScope, rows: int, cols: int, depth: Axis, dtype: DType
) -> list[EpilogueMath]:
    """The ops of *scope* in their order, for an output of *rows* x *cols* whose values are *dtype* before the first op.

    *depth* is the K side, cut into tiles. Only `cast` and `dequant` change the type: `dequant` turns integers into
    floats. Raises PlanError for an op that is unknown or not allowed at its scope, and for an operand or scalars that
    do not fit.
    """
    resolved = []
    for op in epilogue:
        if op.scope is scope:
            meaning = _meaning(op, rows, cols, depth)
            dtype = _result(op, dtype)
            attributes = MathAttributes(op=meaning.math, scalars=op.scalars)
            resolved.append(EpilogueMath(attributes, op.operand, op.operand_pinned, dtype, op.group is not None))
    return resolved


def _meaning(op: EpilogueOp, rows: int, cols: int, depth: Axis) -> _Meaning:
    meaning = EPILOGUE_OPS.get(op.op)
    if meaning is None:
        raise PlanError("gemm epilogue", repr(op.op), f"one of {', '.join(EPILOGUE_OPS)}")
    where = f"gemm epilogue {op.op}"
    if op.scope is EpilogueScope.K_TILE and meaning.not_on_k_tile is not None:
        raise PlanError(where, "scope k_tile", f"scope output_tile: {meaning.not_on_k_tile}")
    if op.group is not None:
        _check_groups(op, op.group, meaning, cols, depth)
        return meaning
    if op.operand is not None:
        shapes = {"row": (1, cols), "column": (rows, 1), "matrix": (rows, cols)}
        allowed = [shapes[each] for each in meaning.arguments.operands]
        fits = not op.scalars and (op.operand.rows, op.operand.cols) in allowed
        came = f"an operand of {op.operand.rows} x {op.operand.cols}"
    else:
        fits = len(op.scalars) == (1 if meaning.arguments.scalar else 0) and not _needs_operand(meaning)
        came = "no operand"
    if not fits:
        output = f" for an output of {rows} x {cols}" if meaning.arguments.operands else ""
        raise PlanError(where, f"{came} and {len(op.scalars)} scalars", f"{meaning.arguments}{output}")
    return meaning


def _check_groups(op: EpilogueOp, group: int, meaning: _Meaning, cols: int, depth: Axis) -> None:
    where = f"gemm epilogue {op.op}"
    if not meaning.arguments.scalar:
        raise PlanError(where, f"group {group}", "no group: only factors come in groups")
    if op.scope is not EpilogueScope.K_TILE:
        raise PlanError(where, f"group {group} and scope {op.scope}", "scope k_tile: the sum has no groups any more")
    if group < 1:
        raise PlanError(where, f"group {group}", "at least 1")
    if depth.tile != min(group, depth.total):
        came = f"groups of {group} along K in tiles of {depth.tile}"
        raise PlanError(where, came, "tiles as deep as a group", f"use a tile whose k is {group}")
    expected = (-(-depth.total // group), cols)
    if op.operand is None or op.scalars or (op.operand.rows, op.operand.cols) != expected:
        came = "no operand" if op.operand is None else f"an operand of {op.operand.rows} x {op.operand.cols}"
        needs = f"an operand of {expected[0]} x {expected[1]}, a row for each group"
        raise PlanError(where, f"{came} and {len(op.scalars)} scalars", needs)


def _needs_operand(meaning: _Meaning) -> bool:
    return bool(meaning.arguments.operands) and not meaning.arguments.scalar


def _result(op: EpilogueOp, dtype: DType) -> DType:
    where = f"gemm epilogue {op.op}"
    if (op.op == "cast") != (op.dtype is not None):
        raise PlanError(where, f"dtype {op.dtype}", "the dtype to round to" if op.op == "cast" else "no dtype")
    if op.dtype is not None:
        if op.dtype.nbytes > dtype.accumulator.nbytes:
            raise PlanError(where, f"dtype {op.dtype}", "one of at most 4 bytes, as the accumulator's elements have")
        return op.dtype
    if op.op == "dequant":
        return DType.F32
    if dtype.is_float:
        return dtype
    fractions = any(not float(scalar).is_integer() for scalar in op.scalars)
    if op.op in _FLOAT_ONLY or fractions or (op.operand is not None and op.operand.dtype.is_float):
        raise PlanError(where, f"values of {dtype}", "floats", "put a dequant or a cast in front of it")
    return dtype
