"""The names of `triton.language.math`."""

from __future__ import annotations

from typing import Any

from kb_triton.language import libdevice
from kb_triton.language.elementary import (
    abs,  # noqa: A004 - Triton's name
    cdiv,
    ceil,
    clamp,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    maximum,
    minimum,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from kb_triton.language.selection import where


def __getattr__(name: str) -> Any:
    """Returns a name of `libdevice`. Earlier releases of Triton have these names here."""
    return getattr(libdevice, name)


__all__ = [
    "abs", "cdiv", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2",
    "maximum", "minimum", "rsqrt", "sigmoid", "sin", "sqrt", "sqrt_rn", "umulhi", "where",
]  # fmt: skip
