"""Where text may be coloured."""

import io
import sys

import pytest

from kb_cli.terminal.streams import has_colour, say


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_has_colours_and_a_file_has_none() -> None:
    assert has_colour(Terminal())
    assert not has_colour(io.StringIO())
    assert not has_colour(None)


@pytest.mark.parametrize(("name", "value", "expected"), [("NO_COLOR", "1", False), ("NO_COLOR", "", True)])
def test_no_color_counts_when_it_is_not_empty(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: bool
) -> None:
    monkeypatch.setenv(name, value)
    assert has_colour(Terminal()) is expected


def test_a_dumb_terminal_has_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colour(Terminal())


def test_errors_are_red_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, expected in ((Terminal(), "\x1b[31merror:\x1b[0m x\n"), (io.StringIO(), "error: x\n")):
        monkeypatch.setattr(sys, "stderr", stream)
        say("x")
        assert stream.getvalue() == expected
