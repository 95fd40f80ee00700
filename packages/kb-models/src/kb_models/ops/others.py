"""Ops of other packages, by the entry points `kb.ops`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final

from kb_messages import BenchmarkError
from kb_models.ops.op import Op
from kb_topology import did_you_mean, listing

GROUP: Final = "kb.ops"
"""The entry points of other packages: the name is that of `Builder.op`, the object a subclass of `Op`."""


def other_op(kind: str) -> Callable[..., Op]:
    """The op that the entry point *kind* names. A builder makes the op with its name and the mesh first.

    Raises BenchmarkError for an unknown name, for several entry points of the name, for one that does not load, and for
    one that is no `Op`.
    """
    known = entry_points(group=GROUP)
    found = [each for each in known if each.name == kind]
    where = f"entry point {kind} of {GROUP}"
    if len(found) != 1:
        names = sorted({each.name for each in known})
        got = f"several: {listing(each.value for each in found)}" if found else "an unknown name"
        needs = "one package with the name" if found else f"one of {listing(names)}"
        raise BenchmarkError(where, got, needs, did_you_mean(kind, names) if not found else "")
    try:
        loaded = found[0].load()
    except Exception as error:  # a package of others may raise anything
        raise BenchmarkError(where, f"{error}", "an op that loads") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Op)):
        raise BenchmarkError(where, f"{found[0].value}, which is none", "a subclass of kb_models.Op")
    return loaded
