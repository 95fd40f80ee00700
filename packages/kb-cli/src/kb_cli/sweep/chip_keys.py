"""Checks the swept values of chips: a key or a value that no chip takes is a mistake, reported before any point
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from kb_cli.sweep.expression import number_of
from kb_engine.engine import Registry
from kb_messages import KbError
from kb_topology import Topology, UnknownKeyError, WrongValueError, loads_topology, read_yaml

Setting = tuple[str, ...]
"""The name of a topology, and the texts of the values that a point changes in it."""
_Chip = tuple[str, str]
"""The text and the path of a topology file."""


def check_chips(chips: Mapping[Setting, _Chip]) -> None:
    """Raises UnknownKeyError when none of *chips* takes all of its keys, WrongValueError for a value that none takes.

    *chips* has the text and path of each setting. The keys of a chip depend on the names of its blocks and on no
    number, and so do the types and ranges of its values. So only one of several chips that differ in other numbers
    alone is loaded, and of the numbers at one place only the least and the greatest of each type. A key or a value that
    some chips take, and any other error of a chip, is reported for its points.
    """
    flaw = cache(_flaw)
    kinds: dict[Setting, _Chip] = {}
    for setting, chip in chips.items():
        kinds.setdefault(_without_numbers(setting), chip)
    errors = _errors_of_all(kinds.values(), flaw)
    if errors and all(isinstance(error, UnknownKeyError) for error in errors):
        raise errors[0]
    for place in range(1, len(next(iter(chips)))):
        extremes = _extremes(dict.fromkeys(setting[place] for setting in chips))
        for value in extremes:
            alike = {_without_numbers(each): chip for each, chip in chips.items() if each[place] == value}
            wrong = [error for error in _errors_of_all(alike.values(), flaw) if isinstance(error, WrongValueError)]
            if wrong:
                raise wrong[0]


def _errors_of_all(chips: Iterable[_Chip], flaw: Callable[[str, str], KbError | None]) -> list[KbError]:
    """Returns the errors of *chips*, or none when one of them takes all of its keys and values."""
    errors: list[KbError] = []
    for chip in chips:
        error = flaw(*chip)
        if not isinstance(error, UnknownKeyError | WrongValueError):
            return []
        errors.append(error)
    return errors


def _without_numbers(setting: Setting) -> Setting:
    return tuple("" if number_of(text) is not None else text for text in setting)


def _extremes(texts: Iterable[str]) -> list[str]:
    """Returns the texts that are no numbers, and the least and the greatest number of each type that YAML reads."""
    found: list[str] = []
    numbers: dict[type, dict[float, str]] = {}
    for text in texts:
        number = number_of(text)
        if number is None:
            found.append(text)
        else:
            numbers.setdefault(type(read_yaml(text, text)), {})[number] = text
    for each in numbers.values():
        found += dict.fromkeys((each[min(each)], each[max(each)]))
    return found


def _flaw(text: str, path: str) -> KbError | None:
    try:
        _check_blocks(loads_topology(text, path))
    except KbError as error:
        return error
    return None


def _check_blocks(topology: Topology) -> None:
    """Raises TopologyError for a key or a value that a block of *topology* does not take."""
    registry = Registry()
    for node in {node.yaml_path: node for node in topology.graph.nodes.values()}.values():
        registry.spec(node, topology.source)
