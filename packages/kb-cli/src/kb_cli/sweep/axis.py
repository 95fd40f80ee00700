"""The axes of a sweep: their names, their values from texts such as `128:1024:128`, and tables of values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple

from kb_cli.benchmark.values.shapes import MOST_ROWS, csv_rows
from kb_messages import BenchmarkError, check_text
from kb_topology import SLOW, YamlPath, format_path, parse_path

TOPOLOGY = "topology"
"""The name of the axis over whole chips."""
Kind = Literal["topology", "chip", "benchmark", "param"]


class SweepAxis(NamedTuple):
    """A swept quantity: the chip (`topology`), the values at `paths` of its file, the benchmark of several, or the
    parameter `name`.

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
    """Returns the places that *text* names, `$.cube.nodes.hbm.bw_gbs` or several with `=` between. Raises
    TopologyError.
    """
    return tuple(parse_path(part.strip()) for part in text.split("="))


def is_chip(text: str) -> bool:
    """Whether *text* names places of a topology file, and no parameter."""
    return text.lstrip().startswith("$")


def named(texts: Sequence[str]) -> list[SweepAxis]:
    """Returns the axes that *texts* name: `topology`, places of a topology file, and parameters.

    An axis of places gets the last keys of its first place as its name, as many as make it unique. Raises
    BenchmarkError for two axes that change the same thing, and TopologyError for a text that is no place.
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
    """Returns the last keys of *path*, as many as no other of *others* ends with, and no name of *taken* is.

    The factor of a slow PE is `slow.pe3`, because the name of a PE says nothing of a factor.
    """
    for count in range(2 if path[0] == SLOW else 1, len(path) + 1):
        tail = path[-count:]
        name = format_path(tail).removeprefix("$").removeprefix(".")
        alike = [other for other in others if other != path and other[-count:] == tail]
        if not alike and name not in taken and isinstance(tail[0], str):
            return name
    return format_path(path)


MOST_VALUES = 100_000
"""The most values of one axis. Source: assumed; so many runs take hours."""
_NUMBER = r"[-+]?\d{1,18}(?:\.\d{1,18})?"
_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER})(?::(\*?)({_NUMBER}))?")
_OPEN, _CLOSE = "[{(", "]})"


def values_of(text: str, where: str) -> tuple[str, ...]:
    """Returns the values that *text* lists, in its order: parts between commas, of which each is a value or a range.

    A range `first:last:step` adds `step` (default 1) as long as the sum is at most `last`, and `first:last:*factor`
    multiplies. Commas within brackets and quotes belong to a value. *where* is the place in errors.

    Raises BenchmarkError for an empty part, a value that stands twice, a range that does not end, too many values, and
    a byte that is no UTF-8, which no table of results could hold.
    """
    check_text(text, where, BenchmarkError)
    found: dict[str, None] = {}
    for part in _parts(text):
        if not part:
            raise BenchmarkError(where, f"an empty value in {text[:80]!r}", "values between commas")
        matched = _RANGE.fullmatch(part)
        for value in [part] if matched is None else _range(matched, where):
            if value in found:
                raise BenchmarkError(where, f"{value} twice", "every value once")
            found[value] = None
            if len(found) > MOST_VALUES:
                raise BenchmarkError(where, f"more than {MOST_VALUES} values", "fewer", "use --random")
    return tuple(found)


def _parts(text: str) -> list[str]:
    """Returns *text* cut at the commas that stand neither in brackets nor in quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in _OPEN) - (char in _CLOSE)
        if char == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _range(matched: re.Match[str], where: str) -> Iterator[str]:
    first, last = Decimal(matched[1]), Decimal(matched[2])
    times, step = bool(matched[3]), Decimal(matched[4] or 1)
    grows = step > 1 and first > 0 if times else step > 0
    if not grows or last < first:
        fix = "write first:last:step or first:last:*factor, with first below last"
        raise BenchmarkError(where, f"the range {matched[0]}", "one that grows and ends", fix)
    value = first
    while value <= last:
        yield f"{value.normalize():f}"
        value = value * step if times else value + step


_NAMES = "whose first row names parameters or places"


def read_table(path: Path) -> list[dict[str, str]]:
    """Returns the rows of the CSV file *path*: texts by column. Raises BenchmarkError with file and line."""
    columns: list[str] = []
    rows: list[dict[str, str]] = []
    for where, cells in csv_rows(path, _NAMES):
        if not columns:
            if not all(cells) or len(set(cells)) != len(cells):
                raise BenchmarkError(where, "a column without a name or a name twice", "one name a column")
            columns = cells
        elif len(cells) != len(columns):
            got = f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'}"
            raise BenchmarkError(where, got, f"{len(columns)}, one for each column")
        elif len(rows) == MOST_ROWS:
            raise BenchmarkError(where, f"more than {MOST_ROWS} rows", "no more", "cut the file in pieces")
        else:
            rows.append(dict(zip(columns, cells, strict=True)))
    if not rows:
        raise BenchmarkError(str(path), "no rows", f"a CSV file in UTF-8 {_NAMES}")
    return rows
