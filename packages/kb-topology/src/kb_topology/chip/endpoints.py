"""Endpoints of links and wires: `noc`, `hbm[0]`, `hbm[0:4]`, `hbm[*]`, `pe[0:4].pe_dma`, `sip[*].io[0].pcie_ep`.

A range is half open. A single node on one side is joined to every node of a range on the other side. Two ranges are
joined node by node, so they must be equally long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Protocol

from msgspec import Struct

from kb_messages import TopologyError
from kb_topology.chip.templates import Level
from kb_topology.text.sentences import cut, did_you_mean, listing

_STEP = re.compile(r"([a-z][a-z0-9_]*)(?:\[(\*|\d{1,9}(?::\d{1,9})?)\])?")


class Fail(Protocol):
    """Makes the error at the place of an endpoint in the file: `YamlSource.error` with its path filled in."""

    def __call__(self, got: str, needs: str, fix: str = "") -> TopologyError:
        """The error; the caller raises it."""


class Ends(Struct, frozen=True):
    """Names relative to a level, like `hbm3` or `pe0.pe_dma`. With *many*, the file has the names as a range."""

    names: tuple[str, ...]
    many: bool


class _Step(Struct, frozen=True):
    """`name` or `name[index]`: one step of an endpoint."""

    name: str
    index: str | None

    def __str__(self) -> str:
        return self.name if self.index is None else f"{self.name}[{self.index}]"

    @property
    def many(self) -> bool:
        return self.index is not None and not self.index.isdecimal()


def expand(text: str, level: Level, fail: Fail) -> Ends:
    """The nodes that the endpoint *text* names at *level*.

    Raises the error of *fail* when *text* is no endpoint or names no node.
    """
    steps = _steps(text, level, fail)
    here, choices = _parts(steps[:-1], level, fail)
    last = steps[-1]
    template = here.nodes.get(last.name)
    if template is None:
        raise _unknown_node(steps, here, level, fail)
    numbered = template.count or last.index is not None
    choices.append([f"{last.name}{i}" for i in _indices(last, template.count, fail)] if numbered else [last.name])
    return Ends(tuple(map("".join, product(*choices))), any(step.many for step in steps))


def expand_parts(text: str, level: Level, fail: Fail) -> tuple[str, ...]:
    """The parts that *text* names at *level*, such as the PEs of `sip[0].cube[*].pe[0:4]`.

    Raises the error of *fail* when *text* is no endpoint or names no part.
    """
    return tuple("".join(each)[:-1] for each in product(*_parts(_steps(text, level, fail), level, fail)[1]))


def pairs(src: Ends, dst: Ends, fail: Fail) -> Iterator[tuple[str, str]]:
    """The links or wires from *src* to *dst*. Raises the error of *fail* for two ranges of unequal length."""
    if src.many and dst.many:
        if len(src.names) != len(dst.names):
            needs = "ranges of one length, or a single node on one side"
            raise fail(f"a range of {len(src.names)} nodes and one of {len(dst.names)}", needs)
        yield from zip(src.names, dst.names, strict=True)
    else:
        yield from ((a, b) for a in src.names for b in dst.names)


def _steps(text: str, level: Level, fail: Fail) -> list[_Step]:
    matches = [_STEP.fullmatch(word) for word in text.split(".")]
    steps = [_Step(match[1], match[2]) for match in matches if match]
    if len(steps) < len(matches):
        raise fail(cut(repr(text)), f"an endpoint (name, name[i], name[i:j] or name[*]{_ways_in(level)})")
    return steps


def _parts(steps: list[_Step], level: Level, fail: Fail) -> tuple[Level, list[list[str]]]:
    """The level that *steps* lead to from *level*, and the names that each step stands for, with a dot behind them."""
    here, choices = level, []
    for step in steps:
        part = here.part(step.name)
        if part is None:
            raise _unknown_part(step, here, fail)
        choices.append([f"{step.name}{number}." for number in _indices(step, part.count, fail)])
        here = part
    return here, choices


def _ways_in(level: Level) -> str:
    """The prefixes that a name may have at *level*, like `, after pe[...]. for a node of a PE`."""
    if not level.parts:
        return ""
    ways = [f"{part.name}[...]. for a node of {'an' if part.name == 'io' else 'a'} {part.noun}" for part in level.parts]
    return f", after {' or '.join(ways)}"


def _indices(step: _Step, count: int | None, fail: Fail) -> range:
    name, index = step.name, step.index
    if count is None:
        raise fail(str(step), f"{name} without an index", f"or give {name} a count")
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


def _unknown_part(step: _Step, here: Level, fail: Fail) -> TopologyError:
    names = [part.name for part in here.parts]
    if step.name in here.nodes:
        return fail(f"{step}., which is a node", f"a node at the end of an endpoint, after {_listed(names)}")
    return fail(f"the unknown part '{step}'", _listed(names), did_you_mean(step.name, names))


def _listed(names: list[str]) -> str:
    return f"one of {listing(f'{name}[...].' for name in names)}" if names else "the name of a node, with no dot"


def _unknown_node(steps: list[_Step], here: Level, level: Level, fail: Fail) -> TopologyError:
    name, known = steps[-1].name, list(level.endpoints)
    needs = f"one of {listing(known)}"
    if here.part(name):
        return fail(f"'{steps[-1]}', which has nodes of its own", needs, f"name one, as in {name}[*].NODE")
    elsewhere = [endpoint for endpoint in known if endpoint.rpartition(".")[2] == name]
    if elsewhere:
        return fail(f"{name!r}", needs, f"write {elsewhere[0].replace('[...]', '[*]')}")
    names = here.nodes if len(steps) > 1 else [endpoint.rpartition(".")[2] for endpoint in known]
    return fail(f"the unknown node {name!r}", needs, did_you_mean(name, names))
