"""Cases to compare with Triton's interpreter: expressions of `tl`, and the elements of their operands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

FLOATS: Final = ("fp16", "fp32")
"""Floats to compute with. The interpreter has no arithmetic on bf16: it takes their bits for integers."""
SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTEGERS: Final = (*SIGNED, *UNSIGNED)
ALL: Final = ("int1", *INTEGERS, *FLOATS)
MOVED: Final = (*ALL, "bf16")
WIDE: Final = ("int32", "uint32", "int64", "uint64")

ROWS, COLUMNS = 16, 16


class Case(NamedTuple):
    """*expression* of the blocks `a`, `b` and `c` of *kinds*. A block of two dimensions is ROWS x COLUMNS."""

    expression: str
    kinds: tuple[str, ...]
    is_matrix: bool = False

    def __str__(self) -> str:
        return f"{self.expression} of {', '.join(self.kinds)}"


_UNARY: Final = {
    "-a": (*INTEGERS, *FLOATS),
    "~a": ("int1", *INTEGERS),
    "+a": (*INTEGERS, *FLOATS),
    "tl.abs(a)": (*INTEGERS, *FLOATS),
    "tl.exp(a)": FLOATS,
    "tl.exp2(a)": FLOATS,
    "tl.log(a)": FLOATS,
    "tl.log2(a)": FLOATS,
    "tl.sqrt(a)": FLOATS,
    "tl.rsqrt(a)": FLOATS,
    "tl.sin(a)": FLOATS,
    "tl.cos(a)": FLOATS,
    "tl.erf(a)": FLOATS,
    "tl.floor(a)": FLOATS,
    "tl.ceil(a)": FLOATS,
    "tl.sigmoid(a)": FLOATS,
    "tl.softmax(a)": FLOATS,
    "a + 1": ALL,
    "a * 3": ALL,
    "1 - a": ALL,
    "a * 0.1": ALL,
    "a / 3": ALL,
    "3 / a": FLOATS,
    "a // 3": INTEGERS,
    "a % 3": INTEGERS,
    "a >> 1": INTEGERS,
    "a << 1": INTEGERS,
    "a & 5": INTEGERS,
    "a < 1": ALL,
    "a == 0": ALL,
    "a >= 0.5": ALL,
    "tl.where(a > 0, a, 0)": ALL,
    "tl.where(a != 0, 1.5, 2)": ALL,
    "tl.maximum(a, 0)": (*INTEGERS, *FLOATS),
    "tl.minimum(a, 1)": (*INTEGERS, *FLOATS),
    "tl.clamp(a, -1.0, 2.0)": FLOATS,
    "tl.cdiv(a, 4)": WIDE,
    "a.to(tl.int1)": ALL,
    "tl.logical_not(a)": ("int1", "int32"),
}

_BINARY: Final = {
    "a + b": ALL,
    "a - b": ALL,
    "a * b": ALL,
    "a / b": ALL,
    "a < b": ALL,
    "a <= b": ALL,
    "a == b": ALL,
    "a != b": ALL,
    "a > b": ALL,
    "a >= b": ALL,
    "tl.where(a > b, a, b)": ALL,
    "tl.maximum(a, b)": ALL,
    "tl.minimum(a, b)": ALL,
    "a & b": ("int1", *INTEGERS),
    "a | b": ("int1", *INTEGERS),
    "a ^ b": ("int1", *INTEGERS),
}

_SAME: Final = {
    "a // tl.where(b == 0, 1, b)": INTEGERS,
    "a % tl.where(b == 0, 1, b)": INTEGERS,
    "a % b": FLOATS,
    "a << (b & 7)": INTEGERS,
    "a >> (b & 7)": INTEGERS,
    "tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)": FLOATS,
    "tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)": FLOATS,
    "tl.clamp(a, tl.minimum(b, 0.0), tl.maximum(b, 0.0))": FLOATS,
    "tl.fma(a, b, c)": FLOATS,
    "tl.fdiv(a, b)": FLOATS,
    "tl.div_rn(a, b)": ("fp32",),
    "tl.sqrt_rn(a)": ("fp32",),
    "tl.umulhi(a, b)": WIDE,
    "a.to(tl.int1) and b.to(tl.int1)": ("int32",),
    "tl.logical_and(a, b)": ("int1",),
    "tl.logical_or(a, b)": ("int1",),
    "tl.cdiv(a, tl.where(b == 0, 1, b))": WIDE,
    "tl.interleave(a, b)": MOVED,
    "tl.join(a, b)": MOVED,
    "tl.cat(a, b, can_reorder=True).to(tl.float32).sum()": ("fp32",),
    "tl.gather(a, tl.arange(0, 256) ^ 3, 0)": ALL,
    "tl.flip(a)": MOVED,
    "tl.histogram(a & 15, 16)": WIDE,
    "tl.ravel(tl.reshape(a, [16, 16]).trans())": ALL,
    "tl.split(tl.reshape(a, [128, 2]))[1]": ALL,
    "tl.zeros_like(a)": MOVED,
    "tl.full([256], 3, a.dtype)": ALL,
    "tl.swizzle2d(a, b & 7, 16, 8, 4)[0]": ("int32",),
}

_MATRIX: Final = {
    "tl.sum(a, {axis})": (*INTEGERS, *FLOATS, "int1"),
    "tl.max(a, {axis})": (*INTEGERS, *FLOATS),
    "tl.min(a, {axis})": (*INTEGERS, *FLOATS),
    "tl.argmax(a, {axis})": (*INTEGERS, *FLOATS),
    "tl.argmin(a, {axis})": (*INTEGERS, *FLOATS),
    "tl.max(a, {axis}, return_indices=True)[1]": (*INTEGERS, *FLOATS),
    "tl.xor_sum(a, {axis})": INTEGERS,
    "tl.reduce_or(a, {axis})": INTEGERS,
    "tl.sum(a, {axis}, keep_dims=True)": ("fp32", "int8"),
    "tl.cumsum(a, {axis})": (*INTEGERS, *FLOATS),
    "tl.cumprod(a, {axis})": (*INTEGERS, *FLOATS),
    "tl.cumsum(a, {axis}, reverse=True)": ("int32", "fp32"),
    "tl.reduce(a, {axis}, larger)": ("int32", "fp32", "fp16"),
    "tl.associative_scan(a, {axis}, larger)": ("int32", "fp32", "fp16"),
    "tl.associative_scan(a, {axis}, larger, reverse=True)": ("int32", "fp32"),
    "tl.sum((a > 1).to(tl.int32), {axis})": ALL,
    "tl.sum(a, {axis}, dtype=tl.float32)": FLOATS,
}

_SQUARE: Final = {
    "tl.sort(a)": (*INTEGERS, *FLOATS),
    "tl.sort(a, descending=True)": (*INTEGERS, *FLOATS),
    "tl.sort(a, dim=1, descending=False)": (*INTEGERS, *FLOATS),
    "tl.topk(a, 4)": ("int32", "fp32"),
    "tl.flip(a, 0)": MOVED,
    "tl.trans(a)": MOVED,
    "tl.permute(a, 1, 0)": MOVED,
    "tl.reshape(a, [4, 64])": MOVED,
    "tl.gather(a, (tl.arange(0, 16) ^ 5)[:, None] + tl.zeros([16, 16], tl.int32), 1)": ALL,
    "tl.gather(a, (tl.arange(0, 16) ^ 5)[None, :] + tl.zeros([16, 16], tl.int32), 0)": ALL,
    "tl.broadcast_to(a[:, None, :], [16, 4, 16])": ("fp32", "int8"),
    "tl.dot(a, b)": ("fp16", "fp32", "int8", "uint8"),
    "tl.dot(a, b, out_dtype=tl.float16)": ("fp16",),
    "tl.dot(a, tl.trans(b), acc=c.to(tl.float32))": ("fp16", "fp32"),
    "tl.dot(a, b, acc=c.to(tl.int32))": ("int8",),
    "a[:, None, :] * b[None, :, :]": ("fp32",),
    "tl.softmax(a, dim=0)": ("fp32",),
    "tl.softmax(a, dim=1)": ("fp32",),
    "tl.sum(a)": ("fp32", "int32"),
    "tl.max(a)": ("fp32", "int32"),
}

_RANDOM: Final = (
    "tl.rand(a, b)",
    "tl.randn(a, b)",
    "tl.randint(a, b)",
    "tl.randint4x(a, b)[2]",
    "tl.rand4x(a, b)[3]",
    "tl.randn4x(a, b)[1]",
    "tl.rand(7, b)",
    "tl.randint(7, b, n_rounds=7)",
    "tl.philox(7, a, b, c, a)[0]",
    "tl.uint_to_uniform_float(a)",
)


def cases() -> Iterator[Case]:
    """Every case, in a fixed order."""
    for expression, kinds in _UNARY.items():
        yield from (Case(expression, (kind,)) for kind in kinds)
    for one, two in itertools.product(ALL, ALL):
        yield Case(f"a.to(tl.{_NAMES[two]})", (one,))
        if _BITS[one] == _BITS[two] and one != "int1" != two:
            yield Case(f"a.to(tl.{_NAMES[two]}, bitcast=True)", (one,))
    for expression, kinds in _BINARY.items():
        yield from (Case(expression, pair) for pair in itertools.product(kinds, kinds))
    for expression, kinds in _SAME.items():
        yield from (Case(expression, (kind,) * 3) for kind in kinds)
    for (expression, kinds), axis in itertools.product(_MATRIX.items(), (0, 1)):
        yield from (Case(expression.format(axis=axis), (kind,), True) for kind in kinds)
    for expression, kinds in _SQUARE.items():
        yield from (Case(expression, (kind,) * 3, True) for kind in kinds)
    for expression, kind in itertools.product(_RANDOM, ("int32", "uint32", "int64")):
        yield Case(expression, (kind,) * 3)


_NAMES: Final = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "int1": "int1",
    **{each: each for each in INTEGERS},
}  # fmt: skip
_BITS: Final = {
    "fp16": 16, "bf16": 16, "fp32": 32, "int1": 1, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32,
    "uint32": 32, "int64": 64, "uint64": 64,
}  # fmt: skip
