"""An axis of a sweep: what it changes, its name in tables, and its place in a topology file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from kb_messages import BenchmarkError
from kb_topology import YamlPath, format_path, parse_path

TOPOLOGY = "topology"
"""The name of the axis over whole chips."""
Kind = Literal["topology", "chip", "param"]


class SweepAxis(NamedTuple):
    """What a sweep changes: the chip (`topology`), the values at `paths` of its file, or the parameter `name`.

    All of `paths` get the same value. `name` is unique in a sweep.
    """

    kind: Kind
    name: str
    paths: tuple[YamlPath, ...] = ()


class AxisGroup(NamedTuple):
    """Axes that change together: each of `rows` has a value for each of `axes`, as text."""

    axes: tuple[SweepAxis, ...]
    rows: tuple[tuple[str, ...], ...]


def chip_paths(text: str) -> tuple[YamlPath, ...]:
    """The places that *text* names, `$.cube.nodes.hbm.bw_gbs` or several with `=` between. Raises TopologyError."""
    return tuple(parse_path(part.strip()) for part in text.split("="))


def is_chip(text: str) -> bool:
    """Whether *text* names places of a topology file, and no parameter."""
    return text.lstrip().startswith("$")


def named(texts: Sequence[str]) -> list[SweepAxis]:
    """The axes that *texts* name: `topology`, places of a topology file, and parameters.

    An axis of places is called by the last keys of its first place, as many as tell the axes apart.
    Raises BenchmarkError for two axes that change the same thing, and TopologyError for what is no place.
    """
    paths = {text: chip_paths(text) for text in texts if is_chip(text)}
    taken = {text.strip() for text in texts if text not in paths}
    places = [path for found in paths.values() for path in found]
    _check_distinct([*(text.strip() for text in texts if text not in paths), *map(format_path, places)])
    firsts = [found[0] for found in paths.values()]
    axes = []
    for text in texts:
        if text in paths:
            axes.append(SweepAxis("chip", _short(paths[text][0], firsts, taken), paths[text]))
        else:
            axes.append(SweepAxis("topology" if text.strip() == TOPOLOGY else "param", text.strip()))
    return axes


def _check_distinct(names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise BenchmarkError(name, "two axes", "one", "give all of its values once, with commas")


def _short(path: YamlPath, others: Iterable[YamlPath], taken: set[str]) -> str:
    """The last keys of *path*, as many as no other of *others* ends with, and no name of *taken* is."""
    for count in range(1, len(path) + 1):
        tail = path[-count:]
        name = format_path(tail).removeprefix("$").removeprefix(".")
        alike = [other for other in others if other != path and other[-count:] == tail]
        if not alike and name not in taken and isinstance(tail[0], str):
            return name
    return format_path(path)
