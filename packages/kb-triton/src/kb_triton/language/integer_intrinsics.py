"""What libdevice has for integers beside functions of the chip: halves of sums and products, bytes in new places."""

from __future__ import annotations

from typing import Any

from kb_triton.language.arithmetic import as_tensor, binary, compute
from kb_triton.language.casts import cast
from kb_triton.language.dtypes import int32, int64, uint32, uint64
from kb_triton.language.elementary import abs as absolute
from kb_triton.language.elementary import umulhi
from kb_triton.language.program import refuse
from kb_triton.language.selection import where
from kb_triton.language.tensor import describe, tensor


def _integer(x: Any, call: str) -> tensor:
    given = as_tensor(x)
    if given.dtype.is_float:
        refuse(f"libdevice.{call} of {describe(given)}", "integers")
    return given


def mulhi(x: Any, y: Any) -> tensor:
    """The upper half of the product of integers."""
    one, two = _integer(x, "mulhi"), _integer(y, "mulhi")
    if not one.dtype.is_int_signed():
        return umulhi(one, two)
    if one.dtype.primitive_bitwidth < 64:
        product = compute("mul", cast(one, int64), cast(two, int64), int64)
        return cast(binary("rshift", product, one.dtype.primitive_bitwidth), one.dtype)
    high = cast(umulhi(cast(one, uint64), cast(two, uint64)), int64)
    found: tensor = high - where(one < 0, two, 0) - where(two < 0, one, 0)
    return found


def hadd(x: Any, y: Any) -> tensor:
    """The mean of two integers, rounded down, without an overflow."""
    one, two = _integer(x, "hadd"), _integer(y, "hadd")
    found: tensor = (one & two) + ((one ^ two) >> 1)
    return found


def rhadd(x: Any, y: Any) -> tensor:
    """The mean of two integers, rounded up, without an overflow."""
    one, two = _integer(x, "rhadd"), _integer(y, "rhadd")
    found: tensor = (one | two) - ((one ^ two) >> 1)
    return found


def sad(x: Any, y: Any, z: Any) -> tensor:
    """`|x - y| + z` of integers, of the type of *x*. The difference does not wrap."""
    one, two = _integer(x, "sad"), _integer(y, "sad")
    difference = absolute(compute("sub", cast(one, int64), cast(two, int64), int64))
    return cast(binary("add", difference, cast(as_tensor(z), int64)), one.dtype)


def byte_perm(x: Any, y: Any, s: Any) -> tensor:
    """Four of the eight bytes of *y* and *x*. Each four bits of *s* say which; the highest of them spreads its sign."""
    low, high = (cast(cast(_integer(each, "byte_perm"), uint32), uint64) for each in (x, y))
    both = binary("bit_or", binary("lshift", high, 32), low)
    selector = cast(cast(_integer(s, "byte_perm"), uint32), uint64)
    found: Any = tensor(0, (), uint64)
    for at in range(4):
        field = binary("bit_and", binary("rshift", selector, 4 * at), 15)
        byte = binary("bit_and", binary("rshift", both, binary("bit_and", field, 7) * 8), 255)
        signs = where(byte >= 128, 255, 0)
        chosen = where(field >= 8, signs, byte)
        found = binary("bit_or", found, binary("lshift", cast(chosen, uint64), 8 * at))
    return cast(cast(found, uint32), int32)
