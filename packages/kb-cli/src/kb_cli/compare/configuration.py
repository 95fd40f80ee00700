"""The differences between the configurations of two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from typing import Any

from msgspec import Struct

from kb_cli.compare.differences import NOT_THERE, Path, ValueDifference, differences
from kb_cli.compare.side import Side
from kb_topology import Topology, format_path, read_yaml


class ConfigurationChange(Struct, frozen=True, kw_only=True):
    """`before` and `after` at `place` of a part of the configuration: `topology`, `parameter`, `source`, `version`, ...

    `stated` says which of the two exist, because a parameter may be None; a missing value is None. `place_after` is the
    place in the second run: elements of lists, such as links, are matched by their names and not by their numbers.
    `moved` says that an element stands elsewhere among the elements that both lists have; `before` and `after` are then
    its numbers.
    """

    part: str
    place: str
    before: Any
    after: Any
    stated: tuple[bool, bool] = (True, True)
    place_after: str
    moved: bool = False


def configuration_changes(one: Side, other: Side) -> list[ConfigurationChange]:
    """Returns every difference between two runs that can have changed their results, in a fixed order."""
    found: list[ConfigurationChange] = []
    if one.topology.digest != other.topology.digest:
        found += _topology(one.topology, other.topology)
    runs = one.run, other.run
    found += _changes("benchmark", *({"name": run.benchmark.name, "file": run.benchmark.file} for run in runs))
    found += _changes("parameter", *(run.params for run in runs))
    found += _changes("seed", *({"": run.seed} for run in runs))
    found += _source(one, other)
    found += _changes("version", *({**run.versions, **run.environment} for run in runs))
    return found


def _topology(before: Topology, after: Topology) -> list[ConfigurationChange]:
    """Returns the differences of the two files. Where the digests differ and no value does, the order of the keys
    differs.
    """
    values = (read_yaml(each.source.text, each.source.path) for each in (before, after))
    found = [_change("topology", format_path, each) for each in differences(*values)]
    if found:
        return found
    digests = before.digest[:12], after.digest[:12]
    return [_change("topology", lambda _: "the order of its keys", ValueDifference((), (), *digests))]


def _changes(part: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ConfigurationChange]:
    """Yields the values that differ, each whole: a parameter that is a list is one value."""
    for place in dict.fromkeys((*before, *after)):
        old, new = before.get(place, NOT_THERE), after.get(place, NOT_THERE)
        if any(differences(old, new)) or (old is NOT_THERE) is not (new is NOT_THERE):
            yield _change(part, lambda path: str(path[0]), ValueDifference((place,), (place,), old, new))


def _change(part: str, named: Callable[[Path], str], each: ValueDifference) -> ConfigurationChange:
    there = each.before is not NOT_THERE, each.after is not NOT_THERE
    return ConfigurationChange(
        part=part,
        place=named(each.path),
        before=each.before if there[0] else None,
        after=each.after if there[1] else None,
        stated=there,
        place_after=named(each.path_after),
        moved=each.moved,
    )


def _source(one: Side, other: Side) -> Iterator[ConfigurationChange]:
    """Yields the numbers of lines of the benchmark's file that were removed and added."""
    if one.run.benchmark.sha256 == other.run.benchmark.sha256:
        return
    lines = list(unified_diff(one.source, other.source, n=0, lineterm=""))[2:]
    removed, added = (sum(line.startswith(sign) for line in lines) for sign in "-+")
    place = f"{removed} {'line' if removed == 1 else 'lines'} removed, {added} added"
    digests = one.run.benchmark.sha256[:12], other.run.benchmark.sha256[:12]
    yield _change("source", lambda _: place, ValueDifference((), (), *digests))
