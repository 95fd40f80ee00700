"""The attributes of blocks of a slow PE: times are a factor longer, and rates a factor lower.

Design: docs/design/topology.md
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import msgspec

from kb_engine.block.block_authors import is_foreign
from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import MemoryComponent, Scratchpad
from kb_engine.block.pe_roles import AddressTranslator
from kb_engine.block.register_file import RegisterFileOwner
from kb_messages import TopologyError
from kb_topology import SLOW, Node, Topology, WrongValueError, convert_checked, exact

TIMES: Final = ("ps", "ns", "us")
"""The last words of names of attributes that are times."""
RATES: Final = ("gbs", "ghz", "mhz")
"""The last words of names of attributes that are rates."""


_TAKE_TIME: Final = (MemoryComponent, Scratchpad, AddressTranslator)


def slowed(
    block_type: type[ComponentBase[Any]], spec: msgspec.Struct, node: Node, topology: Topology
) -> msgspec.Struct:
    """Returns *spec*, the attributes of the block of *node*, a *block_type*, for the factor of its PE.

    An attribute whose name ends in a word of TIMES is multiplied by the factor, and one of RATES is divided, exactly.
    Where no double is the exact value, it is the next double that makes the block faster. So the time of a stage,
    which is rounded up to picoseconds, is the exact time rounded up.

    Raises WrongValueError, at `slow` of the file, for a value that the block does not take, and for a block of another
    maker that takes time although none of its attributes is a time or a rate.
    """
    factor = topology.slow_factor(str(node.pe_id))
    if factor == 1:
        return spec
    raw = msgspec.to_builtins(spec)
    given = f"a factor of {factor:g} for {node.pe_id}"
    if not _scale_all(raw, exact(factor)) and is_foreign(block_type) and _takes_time(block_type):
        ends = ", ".join(f"_{word}" for word in (*TIMES, *RATES))
        got = f"{given}, whose {node.impl} has no attribute that is a time or a rate"
        fix = "leave the PE out of `slow`, or add such an attribute to the block"
        raise WrongValueError(*topology.error((SLOW,), got, f"one whose name ends in one of {ends}", fix).args)
    try:
        return convert_checked(raw, type(spec), topology.source)
    except TopologyError as error:
        got = f"{given}, for which {node.id}{error.where.rpartition('$')[2]} is {error.got}"
        raise WrongValueError(*topology.error((SLOW,), got, error.needs, "choose another factor").args) from None


def _takes_time(block_type: type[ComponentBase[Any]]) -> bool:
    """Whether blocks of *block_type* serve stages or requests in a time of their own.

    The owner of a register file takes the time of its TCM.
    """
    return issubclass(block_type, _TAKE_TIME) or (
        bool(block_type.serves) and not issubclass(block_type, RegisterFileOwner)
    )


def _scale_all(raw: Any, factor: Fraction) -> bool:
    """Scales the times and rates of *raw* in place. Returns whether it has any."""
    found = False
    parts = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    for key, value in parts:
        unit = str(key).rpartition("_")[2]
        if unit in TIMES or unit in RATES:
            raw[key], found = _scaled(value, factor, unit in RATES), True
        else:
            found |= _scale_all(value, factor)
    return found


def _scaled(value: Any, factor: Fraction, is_rate: bool) -> Any:
    """*value* of a time or rate, or every number that it holds, for a block that is slow by *factor*."""
    if isinstance(value, dict):
        return {key: _scaled(each, factor, is_rate) for key, each in value.items()}
    if isinstance(value, list):
        return [_scaled(each, factor, is_rate) for each in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    found = exact(value) / factor if is_rate else exact(value) * factor
    if isinstance(value, int) and found.denominator == 1:
        return found.numerator
    near = float(found)
    while (exact(near) < found) if is_rate else (exact(near) > found):
        near = math.nextafter(near, math.inf if is_rate else 0.0)
    return near
