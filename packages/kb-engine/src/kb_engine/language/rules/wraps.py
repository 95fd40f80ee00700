"""Integers that wrap: whether a function of known integers has a result that its dtype does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_engine.program.values.handles import Handle
from kb_messages import DType, MathAttributes

_EXACT: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "lshift": lambda x, n: x * 2.0**n,
    "copy": lambda x: x,
}
"""The functions whose results wrap, in f64: its rounding is far smaller than what a wrap changes."""
_PASSES_ON: Final = (*_EXACT, "maximum", "minimum", "where")
"""Functions of a number that wrapped which give no other kind of number, as a remainder or a comparison does."""


def wrapped_at(math: MathAttributes, values: Sequence[Handle], dtype: DType, line: str) -> str:
    """The line where integers wrapped from which *math* of *values*, known integers, follows as *dtype*.

    It is *line* where the function itself wraps, and empty if nothing did.
    """
    if math.op not in _PASSES_ON:
        return ""
    before = next((each.wrapped_at for each in values if each.wrapped_at), "")
    return before or (line if _wraps(math, [each.known for each in values if each.known is not None], dtype) else "")


def _wraps(math: MathAttributes, arrays: Sequence[npt.NDArray[Any]], dtype: DType) -> bool:
    function = _EXACT.get(math.op)
    if function is None or dtype is DType.BOOL:
        return False
    with np.errstate(all="ignore"):
        exact = function(*(np.asarray(each, np.float64) for each in math.arguments(arrays)))
    signed = dtype.name.startswith("I")
    high = 2.0 ** (8 * dtype.nbytes - signed)
    return bool((exact < (-high if signed else 0)).any() or (exact >= high).any())
