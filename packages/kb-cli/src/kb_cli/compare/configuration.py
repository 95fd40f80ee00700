"""What is different in the configurations of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any

from msgspec import Struct

from kb_cli.compare.side import Side
from kb_topology import YamlSource, format_path, read_yaml


class ConfigurationChange(Struct, frozen=True, kw_only=True):
    """`before` and `after` at `place` of a part of the configuration: `topology`, `parameter`, `source`, `version`, ...

    None is a value that is not there.
    """

    part: str
    place: str
    before: Any
    after: Any


def configuration_changes(one: Side, other: Side) -> list[ConfigurationChange]:
    """Every difference between two runs that can have changed their results, in a fixed order."""
    found: list[ConfigurationChange] = []
    if one.topology.digest != other.topology.digest:
        found += _changes("topology", values_of(one.topology.source), values_of(other.topology.source))
    runs = one.run, other.run
    found += _changes("benchmark", *({"name": run.benchmark.name, "file": run.benchmark.file} for run in runs))
    found += _changes("parameter", *(run.params for run in runs))
    found += _changes("seed", *({"": run.seed} for run in runs))
    found += _source(one, other)
    found += _changes("version", *({**run.versions, **run.environment} for run in runs))
    return found


def values_of(source: YamlSource) -> dict[str, Any]:
    """Every single value of a topology file by its place."""
    return dict(_leaves((), read_yaml(source.text, source.path)))


def _leaves(path: tuple[str | int, ...], value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves((*path, key), each)
    else:
        yield format_path(path), value


def _changes(part: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ConfigurationChange]:
    for place in dict.fromkeys((*before, *after)):
        old, new = before.get(place), after.get(place)
        if (old, type(old)) != (new, type(new)) and old != new:
            yield ConfigurationChange(part=part, place=place, before=old, after=new)


def _source(one: Side, other: Side) -> Iterator[ConfigurationChange]:
    """The number of lines of the benchmark's file that were removed and added."""
    if one.run.benchmark.sha256 == other.run.benchmark.sha256:
        return
    lines = list(unified_diff(one.source, other.source, n=0, lineterm=""))[2:]
    removed, added = (sum(line.startswith(sign) for line in lines) for sign in "-+")
    place = f"{removed} {'line' if removed == 1 else 'lines'} removed, {added} added"
    yield ConfigurationChange(
        part="source", place=place, before=one.run.benchmark.sha256[:12], after=other.run.benchmark.sha256[:12]
    )
