"""Text of users' files on a terminal."""

import pytest

from kb_cli.terminal.escape import LINE, LINES, bounded, file_stem, shown, shown_json


@pytest.mark.parametrize("char", [*map(chr, range(9)), "\r", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\ud800"])
def test_control_characters_are_escaped(char: str) -> None:
    assert shown(f"a{char}b") in (f"a\\x{ord(char):02x}b", f"a\\u{ord(char):04x}b")
    assert shown_json(f'"{char}"') == f'"\\u{ord(char):04x}"'


def test_text_stays() -> None:
    assert shown("Größe\t\u65e5\n\U0001f600") == "Größe\t\u65e5\n\U0001f600"


def test_long_texts_lose_their_middle() -> None:
    line = bounded("a" * 10 * LINE + "z")
    assert len(line) < LINE + 50
    assert (line[0], line[-1]) == ("a", "z")
    lines = bounded("x\n" * 10 * LINES + "end").splitlines()
    assert (len(lines), lines[-1]) == (LINES + 1, "end")


@pytest.mark.parametrize(
    ("name", "stem"),
    [("gemm", "gemm"), ("../../x", "_.._x"), ("..", "d"), ("", "d"), ("a/b\0c", "a_b_c"), ("x" * 500, "x" * 80)],
)
def test_a_name_makes_no_path(name: str, stem: str) -> None:
    assert file_stem(name, "d") == stem
