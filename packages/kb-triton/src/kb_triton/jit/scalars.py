"""Numbers of a kernel as Triton's scalars, and Triton's meaning of `and`, `or`, `not` where a block is an operand.

`rewriting` puts calls of these functions into the code of a kernel. Triton makes a scalar of fixed type of a number of
Python in three places: where a name is assigned, where a condition of the run chooses between two numbers, and where a
function returns different numbers. Everywhere else a number follows the type of the other operand.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import numpy as np

from kb_triton.language import device_assert, tensor, to_tensor
from kb_triton.language.tensors.constexprs import Shape

AND, OR, NOT, ASSERT, TYPED = "__kb_and", "__kb_or", "__kb_not", "__kb_assert", "__kb_typed"
ASSIGNED, MERGED, RUNS, RETURNED = "__kb_assigned", "__kb_merged", "__kb_runs", "__kb_returned"
SHAPE = "__kb_shape"


def both(first: Any, second: Callable[[], Any]) -> Any:
    """Returns `first and second()`, elementwise for blocks. *second* is not called if *first*, no block, is false."""
    if not _is_block(first) and not first:
        return first
    other = second()
    return _as_bool(first) & _as_bool(other) if _is_block(first) else other


def either(first: Any, second: Callable[[], Any]) -> Any:
    """Returns `first or second()`, elementwise for blocks. *second* is not called if *first*, no block, is true."""
    if not _is_block(first) and first:
        return first
    other = second()
    return _as_bool(first) | _as_bool(other) if _is_block(first) else other


def inverse(value: Any) -> Any:
    """Returns `not value`, elementwise for a tensor."""
    return value == 0 if type(value) is tensor and value.dtype.family != "void" else not value


def typed(value: Any) -> Any:
    """Returns *value*, with a number of Python as the scalar that Triton makes of it.

    The scalar is an int1, or an int32, or of the first of uint32, int64 and uint64 that holds an integer, or an fp32,
    or an fp64 for a number that fp32 does not hold as a normal number. Raises KernelError for an integer beyond 64
    bits. Source of the types: `to_tensor_type` in `python/triton/language/semantic.py` of Triton 3.9.
    """
    if isinstance(value, (int, float)):
        return value if isinstance(value, Enum) else to_tensor(value)
    return to_tensor(value) if isinstance(value, _NUMPY) else value


_NUMPY: Final = (np.integer, np.floating, np.bool_)


def assigned(value: Any) -> Any:
    """Returns *value* as a name gets it: as `typed` says, and element by element in a tuple. A list becomes a tuple."""
    kind = type(value)
    if kind is tensor:
        return value
    if isinstance(value, (tuple, list)):
        return _of_elements(value, [assigned(each) for each in value])
    return typed(value)


def merged(condition: Any, value: Any) -> Any:
    """Returns *value*, which *condition* chose: as `typed` says, if *condition* is a value of the run."""
    return typed(value) if type(condition) is tensor else value


def runs(condition: Any, before: bool) -> bool:
    """Whether *condition* is a value of the run, or one *before* it was."""
    return before or type(condition) is tensor


def returned(value: Any, is_typed: bool, equal: tuple[int, ...] = ()) -> Any:
    """Returns the *value* that a function returns: as `assigned` says, if *is_typed*.

    *equal* has the numbers of the elements of a tuple that are equal at each `return` of the function. They stay as
    they are.
    """
    if not is_typed or not equal:
        return assigned(value) if is_typed else value
    return _of_elements(value, [each if at in equal else assigned(each) for at, each in enumerate(value)])


def _of_elements(value: Any, items: list[Any]) -> Any:
    """Returns *value* with *items* in place of its elements; a tuple in which nothing changes as it is."""
    if isinstance(value, tuple) and all(one is two for one, two in zip(value, items, strict=True)):
        return value
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def shape_of(value: Any) -> Any:
    """Returns `value.shape`, and for a tensor a shape that equals a list of the same sizes."""
    return Shape(value.shape) if type(value) is tensor else value.shape


def _is_block(value: Any) -> bool:
    return type(value) is tensor and value.numel != 1


def _as_bool(value: Any) -> Any:
    """Returns *value* as booleans: every element that is not 0 is true."""
    return value != 0 if isinstance(value, tensor) else bool(value)


OPERATORS: Final = {
    AND: both, OR: either, NOT: inverse, ASSERT: device_assert, TYPED: typed, ASSIGNED: assigned, MERGED: merged,
    RUNS: runs, RETURNED: returned, SHAPE: shape_of,
}  # fmt: skip
"""The functions that rewritten code calls, by their names there."""
