"""Reading of YAML text into plain data, by the event stream of libyaml.

The reader accepts a strict subset of YAML, so that a file means what it looks like. Only `true` and `false` are bools
(`on` and `no` are strings), `1e9` is a float, numbers are finite and fit 64 bits, keys are strings and occur once, and
there are no tags, no aliases and no control characters. The reader takes events instead of a composed tree, because
events let it limit depth and size, and give every value a position.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, NoReturn, Protocol

import yaml
from msgspec import Struct

from kb_messages import TopologyError
from kb_topology.text.scalars import NumberError, resolve
from kb_topology.text.sentences import cut, short

YamlPath = tuple[str | int, ...]
Mark = tuple[int, int]

MAX_DEPTH = 64
"""Deepest nesting accepted. Source: assumed; the format itself needs 7 levels."""

_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""The characters that control a terminal or change the order of text on a screen. Escapes can spell them."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def format_path(path: YamlPath) -> str:
    """*path* as `$.cube.links[2].from`."""
    text = "$"
    for step in path:
        plain = isinstance(step, str) and _IDENTIFIER.fullmatch(step)
        text += f".{cut(str(step))}" if plain else f"[{cut(repr(step))}]"
    return text


def read_yaml(text: str, label: str) -> Any:
    """The single document of *text* as dicts, lists and scalars. *label* names the text in errors.

    Raises TopologyError for anything outside the accepted subset, at its line and column.
    """
    return _Reader(label).read(text)


def read_marks(text: str) -> dict[YamlPath, Mark]:
    """Line and column, from 1, of every mapping key and list item before the first error."""
    marks: dict[YamlPath, Mark] = {}
    with suppress(TopologyError):
        _Reader("", marks).read(text)
    return marks


class _Position(Protocol):
    """A position in the form of PyYAML: line and column, both from 0."""

    line: int
    column: int


def _mark_of(position: _Position | None) -> Mark:
    return (position.line + 1, position.column + 1) if position else (1, 1)


def _indentation(text: str, mark: Mark) -> str:
    """The blanks with which the line of *mark* begins, up to the character at *mark*."""
    before = text.splitlines()[mark[0] - 1 : mark[0]]
    begin = "".join(before)[: mark[1]]
    return begin[: len(begin) - len(begin.lstrip())]


class _Frame(Struct):
    """A container that is being filled. `key` is the mapping key whose value comes next."""

    container: dict[str, Any] | list[Any]
    key: str | None = None
    key_marks: dict[str, Mark] = {}

    @property
    def step(self) -> str | int | None:
        return len(self.container) if isinstance(self.container, list) else self.key


class _Reader:
    def __init__(self, label: str, marks: dict[YamlPath, Mark] | None = None) -> None:
        self.label = label
        self.marks = marks
        self.stack: list[_Frame] = []
        self.roots: list[Any] = []

    def read(self, text: str) -> Any:
        self._check_characters(text)
        try:
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                self._take(event, _mark_of(event.start_mark))
        except yaml.MarkedYAMLError as error:
            mark = _mark_of(error.problem_mark)
            if "\t" in _indentation(text, mark):
                self._refuse(mark, "a tab", "spaces in its place")
            self._refuse(mark, f"text that is not YAML ({error.problem})", "valid YAML")
        return self.roots[0] if self.roots else None

    def _check_characters(self, text: str) -> None:
        bad = _NOT_YAML.search(text)
        if bad:
            before = text[: bad.start()]
            mark = before.count("\n") + 1, len(before) - before.rfind("\n")
            self._refuse(mark, f"the character {bad.group()!a}", "printable text")

    def _refuse(self, mark: Mark, got: str, needs: str, fix: str = "") -> NoReturn:
        where = f"{self.label}:{mark[0]}:{mark[1]}"
        raise TopologyError(f"{where}: {format_path(self._path())}" if self.stack else where, got, needs, fix)

    def _path(self) -> YamlPath:
        return tuple(frame.step for frame in self.stack if frame.step is not None)

    def _take(self, event: yaml.Event, mark: Mark) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._refuse(mark, f"the tag {cut(tag)}", "a value without a tag")
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, mark)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open({}, mark)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open([], mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._place(self.stack.pop().container)
        elif isinstance(event, yaml.AliasEvent):
            self._refuse(mark, f"the alias *{cut(str(event.anchor))}", "no aliases", "write the value out")
        elif isinstance(event, yaml.DocumentStartEvent) and self.roots:
            self._refuse(mark, "a second document", "one", "remove the --- line and what follows it")

    def _scalar(self, event: yaml.ScalarEvent, mark: Mark) -> None:
        unsafe = _UNSAFE.search(event.value)
        if unsafe:
            self._refuse(mark, f"the character {unsafe.group()!a}", "printable text")
        try:
            value = resolve(event.value) if event.implicit[0] else event.value
        except NumberError as error:
            self._refuse(mark, error.got, error.needs)
        if self.stack and self.stack[-1].step is None:
            self._take_key(value, event.value, mark)
        else:
            self._mark(mark)
            self._place(value)

    def _take_key(self, key: object, text: str, mark: Mark) -> None:
        if not isinstance(key, str):
            self._refuse(mark, f"the key {short(key)}", "a string", "put it in quotes")
        frame = self.stack[-1]
        frame.key = key
        first = frame.key_marks.setdefault(key, mark)
        if first is not mark:
            self._refuse(mark, f"a key that is already at {first[0]}:{first[1]}", "each key once", "remove one")
        self._mark(mark)

    def _open(self, container: dict[str, Any] | list[Any], mark: Mark) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self._refuse(mark, f"more than {MAX_DEPTH} levels of nesting", f"at most {MAX_DEPTH}")
        if self.stack and self.stack[-1].step is None:
            self._refuse(mark, "a list or mapping as a key", "a string")
        self._mark(mark)
        self.stack.append(_Frame(container))

    def _mark(self, mark: Mark) -> None:
        if self.marks is not None:
            self.marks.setdefault(self._path(), mark)

    def _place(self, value: Any) -> None:
        if not self.stack:
            self.roots.append(value)
            return
        frame = self.stack[-1]
        if isinstance(frame.container, list):
            frame.container.append(value)
        elif frame.key is not None:
            frame.container[frame.key] = value
            frame.key = None
