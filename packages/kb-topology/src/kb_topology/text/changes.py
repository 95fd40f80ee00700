"""Changes of single values of a topology file, named by their place: `$.cube.nodes.hbm.bw_gbs`.

The text is edited in place, so comments and order stay. The result is a file that a user can keep, and an error about a
new value names the line of that value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import yaml

from kb_messages import TopologyError
from kb_topology.text.scalars import NumberError, resolve
from kb_topology.text.sentences import cut, did_you_mean
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import YamlPath, format_path, read_yaml

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d{1,9})\]|\['([^'\\]*)'\]")


class _Scalar(NamedTuple):
    """The place of a value in the text, in characters."""

    start: int
    end: int


class _Entries(NamedTuple):
    """The place of the first key of a mapping, its column, and whether the mapping is in braces."""

    start: int
    column: int
    in_braces: bool


_MAY_BE_MISSING: Final[tuple[YamlPath, ...]] = (("slow",),)
"""The mappings whose first key is added together with the mapping, because most files have none."""

Place = _Scalar | _Entries | None
"""None stands for a list or a mapping without keys."""


def parse_path(text: str) -> YamlPath:
    """The place that *text* names, such as `$.cube.links[2].bw_gbs`. Raises TopologyError for other texts."""
    steps = list(_STEP.finditer(text, 1))
    if not text.startswith("$") or not steps or sum(len(step[0]) for step in steps) != len(text) - 1:
        raise TopologyError(cut(text), "no place in a topology", "one like $.cube.nodes.hbm.bw_gbs or $.cube.links[0]")
    return tuple(int(step[2]) if step[2] else step[1] or step[3] for step in steps)


def with_values(source: YamlSource, values: Mapping[YamlPath, str]) -> YamlSource:
    """*source* with other *values*, each a single YAML value as text, at their places.

    A key that its mapping does not have yet is added, and the mapping `slow` is added with its first key. Raises
    TopologyError for a place that does not exist, for a place that holds more than a single value, and for a text that
    is no single value. The new text is not checked otherwise.
    """
    text, found = source.text, _places(source.text)
    edits: list[tuple[_Scalar, str]] = []
    missing: dict[YamlPath, str] = {}
    for path, value in values.items():
        here = found.get(path)
        scalar = _scalar_text(value, format_path(path))
        if isinstance(here, _Scalar):
            edits.append((here, scalar))
        elif path in found:
            raise source.error(path, "more than one value there", "the place of a single value", _inner(path, found))
        else:
            missing[path] = scalar
    for here, scalar in sorted(edits, reverse=True):  # from the end, so that no place moves before its edit
        text = text[: here.start] + scalar + text[here.end :]
    for path, scalar in missing.items():
        text = _added(text, source, path, scalar, _places(text))
    return YamlSource(source.path, text)


def value_at(source: YamlSource, path: YamlPath) -> Any:
    """The content of *source* at *path*: a value, a list or a mapping, and None for an empty place."""
    here = read_yaml(source.text, source.path)
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return None
    return here


def _scalar_text(value: str, where: str) -> str:
    """*value* in the form that the file has, in any context. Texts get quotes."""
    scalar = _single(value)
    if scalar is None:
        raise TopologyError(where, cut(repr(value)), "a single value: a number, a text, true, false or null")
    try:
        found = resolve(scalar.value) if scalar.implicit[0] else scalar.value
    except NumberError as error:
        raise TopologyError(where, error.got, error.needs) from None
    if isinstance(found, str):
        # A quoted JSON string is a YAML string in every context.
        return json.dumps(found)
    return "null" if found is None else scalar.value


def _single(value: str) -> yaml.ScalarEvent | None:
    """*value* as the one scalar of a YAML text, without tag and anchor; None for every other text."""
    try:
        events = [each for each in yaml.parse(value, Loader=yaml.CSafeLoader) if isinstance(each, yaml.NodeEvent)]
    except (yaml.YAMLError, UnicodeEncodeError):  # half of a surrogate pair, which stands for a byte that is no UTF-8
        return None
    if len(events) == 1 and isinstance(events[0], yaml.ScalarEvent) and events[0].tag is events[0].anchor is None:
        return events[0]
    return None


def _added(text: str, source: YamlSource, path: YamlPath, scalar: str, found: Mapping[YamlPath, Place]) -> str:
    """*text* with the key at *path* before the other keys of its mapping."""
    key = path[-1]
    if path[:-1] in _MAY_BE_MISSING and path[:-1] not in found and isinstance(key, str):
        path, scalar = path[:-1], f"{{{_entry(key, scalar)}}}"
    above, key = found.get(path[:-1]), path[-1]
    if not isinstance(above, _Entries) or not isinstance(key, str):
        raise _not_there(source, path, found)
    entry = _entry(key, scalar)
    # The new entry stands before the first key, whose column gives the indentation.
    follows = ", " if above.in_braces else "\n" + " " * above.column
    return text[: above.start] + entry + follows + text[above.start :]


def _entry(key: str, value: str) -> str:
    return f"{key if key.replace('_', '').isalnum() else json.dumps(key)}: {value}"


def _not_there(source: YamlSource, path: YamlPath, found: Mapping[YamlPath, Place]) -> TopologyError:
    wrong = next(path[:n] for n in range(1, len(path) + 1) if path[:n] not in found)
    beside = [format_path(each) for each in found if len(each) == len(wrong) and each[:-1] == wrong[:-1]]
    near = did_you_mean(format_path(wrong), beside) or did_you_mean(format_path(path), map(format_path, found))
    fix = near or (f"there is {beside[-1]}" if beside else "")
    return source.error(wrong, "a place that the file does not have", "one that it has", fix)


def _inner(path: YamlPath, found: Mapping[YamlPath, Place]) -> str:
    """A hint at the first single value below *path*."""
    below = next((each for each, place in found.items() if each[: len(path)] == path and _is_scalar(place)), None)
    return f"name one of its values, such as {format_path(below)}" if below is not None else ""


def _is_scalar(place: Place) -> bool:
    return isinstance(place, _Scalar)


@lru_cache(maxsize=4)
def _places(text: str) -> Mapping[YamlPath, Place]:
    """Every place of *text*, in order. *text* is a topology without flaws of YAML.

    A sweep changes one text thousands of times, so the places of the last texts are kept.
    """
    found: dict[YamlPath, Place] = {}
    steps: list[str | int | None] = []  # of the open containers: the key or the index of the next value
    flows: list[bool] = []
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            steps.pop(), flows.pop()
            _next(steps)
        elif isinstance(event, yaml.NodeEvent):
            _take(event, found, steps, flows)
    return found


def _take(event: Any, found: dict[YamlPath, Place], steps: list[str | int | None], flows: list[bool]) -> None:
    if steps and steps[-1] is None:  # a key
        above: YamlPath = tuple(step for step in steps[:-1] if step is not None)
        if found[above] is None:
            found[above] = _Entries(event.start_mark.index, event.start_mark.column, flows[-1])
        steps[-1] = event.value
        return
    path: YamlPath = tuple(step for step in steps if step is not None)
    if isinstance(event, yaml.ScalarEvent):
        found[path] = _Scalar(_index(event.start_mark), _index(event.end_mark))
        _next(steps)
        return
    found[path] = None
    steps.append(0 if isinstance(event, yaml.SequenceStartEvent) else None)
    flows.append(bool(event.flow_style))


def _index(mark: Any) -> int:
    """A mark's place in the text, in characters."""
    return int(mark.index)


def _next(steps: list[str | int | None]) -> None:
    """Counts one value more in the innermost open container."""
    if steps:
        last = steps[-1]
        steps[-1] = last + 1 if isinstance(last, int) else None
