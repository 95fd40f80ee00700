"""Endpoints of links and wires: `noc`, `hbm[0]`, `hbm[0:4]`, `hbm[*]`, `pe[0:4].pe_dma`.

A range is half open. A single name on one side goes with every one of a range on the other; two ranges pair one to
one and must be equally long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from kb_messages.errors import TopologyError
from kb_topology.sentences import did_you_mean, listing
from kb_topology.spec import NodeTemplate

_INDEX = r"\[(\*|\d{1,9}(?::\d{1,9})?)\]"
_ENDPOINT = re.compile(rf"(?:pe{_INDEX}\.)?([a-z][a-z0-9_]*)(?:{_INDEX})?")
_SYNTAX = "name, name[i], name[i:j] or name[*], after pe[...]. for a node of a PE"


class Fail(Protocol):
    """Makes the error for the place an endpoint is written at; `Source.error` with its path filled in."""

    def __call__(self, got: str, needs: str, fix: str = "") -> TopologyError:
        """The error; the caller raises it."""


class Scope(Struct, frozen=True, kw_only=True):
    """The templates an endpoint can name: *nodes* directly, *pe_nodes* behind `pe[...]` of *pe_count* PEs."""

    nodes: Mapping[str, NodeTemplate]
    pe_nodes: Mapping[str, NodeTemplate] = {}
    pe_count: int = 0

    @property
    def names(self) -> list[str]:
        """The names an endpoint may use, as it would write them."""
        return [*self.nodes, *(f"pe[...].{name}" for name in self.pe_nodes)]


class Ends(Struct, frozen=True):
    """Names relative to the scope, like `hbm3` or `pe0.pe_dma`; *many* when the endpoint was written as a range."""

    names: tuple[str, ...]
    many: bool


def expand(text: str, scope: Scope, fail: Fail) -> Ends:
    """The nodes that the endpoint *text* names. Raises *fail*'s error when it names none or is not an endpoint."""
    match = _ENDPOINT.fullmatch(text)
    if not match:
        raise fail(repr(text), f"an endpoint ({_SYNTAX})")
    pe_index, name, index = match.groups()
    template = (scope.nodes if pe_index is None else scope.pe_nodes).get(name)
    if template is None:
        raise _unknown(name, pe_index is not None, scope, fail)
    pes = [""] if pe_index is None else [f"pe{i}." for i in _indices("pe", scope.pe_count, pe_index, fail)]
    suffixes = [str(i) for i in _indices(name, template.count, index, fail)] if template.count or index else [""]
    many = any(part is not None and not part.isdecimal() for part in (pe_index, index))
    return Ends(tuple(f"{pe}{name}{suffix}" for pe in pes for suffix in suffixes), many)


def pairs(src: Ends, dst: Ends, fail: Fail) -> Iterator[tuple[str, str]]:
    """The links or wires from *src* to *dst*. Raises *fail*'s error for two ranges of unequal length."""
    if src.many and dst.many:
        if len(src.names) != len(dst.names):
            needs = "ranges of one length, or a single node on one side"
            raise fail(f"a range of {len(src.names)} nodes and one of {len(dst.names)}", needs)
        yield from zip(src.names, dst.names, strict=True)
    else:
        yield from ((a, b) for a in src.names for b in dst.names)


def _indices(name: str, count: int | None, index: str | None, fail: Fail) -> range:
    if count is None:
        raise fail(f"{name}[{index}]", f"{name} without an index", f"or give {name} a count")
    if index is None:
        raise fail(name, f"an index, as there are {count}", f"write {name}[0] or {name}[*]")
    first, colon, last = index.partition(":")
    if first == "*":
        return range(count)
    found = range(int(first), int(last) if colon else int(first) + 1)
    if not found:
        raise fail(f"{name}[{index}], which is empty", f"a first index below the last, as in {name}[0:{count}]")
    if found.stop > count:
        raise fail(f"{name}[{index}]", f"indices from 0 to {count - 1}")
    return found


def _unknown(name: str, in_pe: bool, scope: Scope, fail: Fail) -> TopologyError:
    elsewhere = scope.nodes if in_pe else scope.pe_nodes
    if name in elsewhere:
        return fail(f"{name!r}", f"one of {listing(scope.names)}", f"write {'' if in_pe else 'pe[*].'}{name}")
    fix = did_you_mean(name, scope.pe_nodes if in_pe else [*scope.nodes, *scope.pe_nodes])
    return fail(f"the unknown node {name!r}", f"one of {listing(scope.names)}", fix)
