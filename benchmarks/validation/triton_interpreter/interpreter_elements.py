"""The elements that expressions are given: limits, signed zeros, infinities and NaN, and random ones between."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from interpreter_cases import COLUMNS, ROWS

_INTEGERS = (0, 1, -1, 2, 3, 5, 7, 8, -8, 31, 100)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.0, np.inf, -np.inf, np.nan, 100.25, -7e4, 65504.0, 1e-7, 3e38)


def block(kind: str, number: int) -> npt.NDArray[np.generic]:
    """Elements of *kind* for the operand *number*: bf16 as the u16 of its bits, int1 as bytes of 0 and 1.

    Two operands hold every pair of the special values in the same places.
    """
    rng = np.random.default_rng([number, *kind.encode()])
    n = ROWS * COLUMNS
    if kind == "int1":
        return rng.integers(0, 2, n).astype(np.uint8)
    specials = _specials(kind)[:16]
    turn = np.arange(n)
    chosen = specials[(turn // 16 if number == 1 else turn) % len(specials)]
    ordinary = _ordinary(kind, rng, n)
    found = np.where(turn % 5 == 4, ordinary, chosen) if number != 2 else ordinary
    return _bf16_bits(found) if kind == "bf16" else found


def _specials(kind: str) -> npt.NDArray[np.generic]:
    if kind in ("fp16", "bf16", "fp32"):
        with np.errstate(over="ignore"):
            return np.array(_FLOATS, np.float32).astype(np.float16 if kind == "fp16" else np.float32)
    info = np.iinfo(kind)
    limits = [info.max, info.min, info.max - 1, info.min + 1]
    return np.array([each for each in (*limits, *_INTEGERS) if info.min <= each <= info.max], kind)


def _ordinary(kind: str, rng: np.random.Generator, n: int) -> npt.NDArray[np.generic]:
    if kind in ("fp16", "bf16", "fp32"):
        return (rng.standard_normal(n) * 3).astype(np.float16 if kind == "fp16" else np.float32)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, n, kind, endpoint=True)


def _bf16_bits(x: npt.NDArray[np.generic]) -> npt.NDArray[np.uint16]:
    """*x*, f32, as the bits of bf16, rounded to nearest even."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)
