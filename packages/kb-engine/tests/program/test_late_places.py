"""Cuts of buffers and registers that are made when somebody depends on them."""

from typing import Any

import pytest

from kb_engine.program import late_places
from kb_engine.program.late_places import LatePlaces


class Work:
    """A command by its name. *placed* gets the name when buffers are cut for the command."""

    def __init__(self, name: str, placed: list[str]) -> None:
        self.command: Any = name
        self._placed = placed

    def place_again(self, command: Any) -> None:
        assert command == self.command
        self._placed.append(command)


def launches(placed: list[str], *names: str) -> list[dict[str, list[Any]]]:
    """For each of *names* a launch with a command of that name on PEs 0 and 1: `a0` and `a1`."""
    return [{pe: [Work(name + pe, placed)] for pe in "01"} for name in names]


def test_cuts_of_a_pe_are_made_once_and_in_order_when_a_program_begins() -> None:
    placed: list[str] = []
    late = LatePlaces()
    a, b, c = launches(placed, "a", "b", "c")
    late.add(a, 2)
    late.add(b, 2)
    assert placed == []
    late.place("1")
    assert placed == ["a1", "b1"]
    late.place("1")
    late.add(c, 2)
    late.place("2")
    assert placed == ["a1", "b1"]
    late.place("1")
    late.place("0")
    assert placed == ["a1", "b1", "c1", "a0", "b0", "c0"]


def test_commands_that_a_launch_gets_later_are_among_its_own() -> None:
    placed: list[str] = []
    late = LatePlaces()
    launch: dict[str, list[Any]] = {}
    late.add(launch, 2)
    late.place("0")
    launch["1"] = [Work("first", placed), Work("second", placed)]
    late.place("1")
    assert placed == ["first", "second"]


@pytest.mark.parametrize(
    ("limit", "most", "expected"),
    [
        ("_MOST_LAUNCHES", 3, ["a0", "b0", "c0", "a1", "b1", "c1"]),
        ("_MOST_COMMANDS", 3, ["a0", "b0", "a1", "b1"]),  # two launches have four commands
    ],
)
def test_what_is_kept_is_bounded(limit: str, most: int, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_places, limit, most)
    placed: list[str] = []
    late = LatePlaces()
    for each in launches(placed, "a", "b", "c", "d"):
        late.add(each, 2)
    assert placed == expected
    late.place("0")
    assert placed[len(expected) :] == (["d0"] if limit == "_MOST_LAUNCHES" else ["c0", "d0"])


def test_a_launch_that_is_repeated_counts_its_commands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_places, "_MOST_COMMANDS", 3)
    placed: list[str] = []
    late = LatePlaces()
    (again,) = launches(placed, "a")
    for _ in range(5):
        late.add(again, 2)
    assert placed == []
    late.place("1")
    assert placed == ["a1"] * 5
