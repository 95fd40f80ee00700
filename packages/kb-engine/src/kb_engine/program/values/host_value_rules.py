"""What operators make of affine integers, boxes and half spaces: another of them, or data."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, and_, eq, floordiv, ge, gt, le, lshift, lt, mod, mul, ne, or_, sub
from typing import Any, TypeAlias

import numpy as np

from kb_engine.program.values.affine import Affine
from kb_engine.program.values.affine_masks import HalfSpace, IndexBox, compared, where_not_negative

Form: TypeAlias = "Affine | IndexBox | HalfSpace"
_COMPARISONS = lt, le, gt, ge, eq, ne
_MOST_SHIFT = 62


def form_of(function: Callable[[Any, Any], Any], first: Form | None, second: Form | None) -> Form | None:
    """The form of `function(first, second)`; None where the result, or an operand, is data or one place.

    Raises ValueError for shapes that do not broadcast, and ZeroDivisionError.
    """
    if first is None or second is None:
        return None
    one, two = first.shape, second.shape
    shape = one if one == two or not two else two if not one else np.broadcast_shapes(one, two)
    if not shape:
        return None
    if isinstance(first, Affine) and isinstance(second, Affine):
        if function in _COMPARISONS:
            return compared(function, first.broadcast(shape).plus(second.broadcast(shape).times(-1)))
        found = _arithmetic(function, first.broadcast(shape), second.broadcast(shape))
        return found if found is not None and found.fits else None
    if isinstance(first, Affine) or isinstance(second, Affine):
        return None
    if function is and_:
        return _both(first.broadcast(shape), second.broadcast(shape))
    return _either(first.broadcast(shape), second.broadcast(shape)) if function is or_ else None


def inverted(form: Form | None) -> Form | None:
    """The form of `~form`; None where it is data."""
    if isinstance(form, Affine):
        return form.times(-1).plus(Affine.constant(-1, form.shape))
    if isinstance(form, HalfSpace):
        return where_not_negative(form.integers.times(-1).plus(Affine.constant(-1, form.shape)))
    return None if form is None else form.inverted()


def _arithmetic(function: Callable[[Any, Any], Any], first: Affine, second: Affine) -> Affine | None:
    """The affine result of two operands of one shape, if there is one."""
    if function is add:
        return first.plus(second)
    if function is sub:
        return first.plus(second.times(-1))
    if function is mul:
        if not second.axes:
            return first.times(second.base)
        return None if first.axes else second.times(first.base)
    if second.axes:
        return None
    if function is lshift:
        return first.times(1 << second.base) if 0 <= second.base <= _MOST_SHIFT else None
    if function is floordiv:
        return first.floor_div(second.base)
    return first.modulo(second.base) if function is mod else None


def _both(first: IndexBox | HalfSpace, second: IndexBox | HalfSpace) -> IndexBox | HalfSpace | None:
    if isinstance(first, IndexBox) and isinstance(second, IndexBox):
        return first.within(second)
    for one, other in ((first, second), (second, first)):
        if isinstance(one, IndexBox) and (one.is_everywhere or one.is_empty):
            return other if one.is_everywhere else one
    return None


def _either(first: IndexBox | HalfSpace, second: IndexBox | HalfSpace) -> IndexBox | HalfSpace | None:
    for one, other in ((first, second), (second, first)):
        if isinstance(one, IndexBox) and (one.is_everywhere or one.is_empty):
            return one if one.is_everywhere else other
    return None
