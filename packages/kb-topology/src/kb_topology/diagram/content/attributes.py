"""The attributes of a node as lines of text. The suffix of a name gives the unit, for blocks of any author."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb_topology.chip.graph import Node
from kb_topology.text.sizes import format_nbytes

_UNITS = {
    "gbs": "GB/s",
    "ghz": "GHz",
    "mhz": "MHz",
    "ps": "ps",
    "ns": "ns",
    "us": "us",
    "mm": "mm",
    "kib": "KiB",
    "mib": "MiB",
    "gib": "GiB",
    "cycles": "cycles",
}
_PLAIN = ("bw", "clock")
"""Words that a line leaves out, because the unit implies them: `102.4 GB/s`, not `bw 102.4 GB/s`."""
_LONGEST = 28
"""Letters of a line in a box. Longer lines are cut, and the tooltip has them whole."""
_HEADLINES = (
    *("rows", "lanes", "bw_gbs", "clock_ghz", "clock_mhz", "latency_ns", "overhead_ns", "issue_ns"),
    *("buffer_nbytes", "credit_ns"),
)


def all_lines(node: Node) -> list[str]:
    """A line for each attribute of *node*, with its unit: `latency 2 ns`, `queue depth 4`, `64 rows x 64 cols`."""
    lines = [f"{format_nbytes(node.memory.nbytes)} {node.memory.space.value.upper()}"] if node.memory else []
    return lines + [text for _, text in _named(node.attrs)]


def head_lines(node: Node) -> tuple[str, ...]:
    """The few lines for which a picture of many blocks has room: size, array, rate, clock and latency."""
    lines = [format_nbytes(node.memory.nbytes)] if node.memory else []
    return tuple(cut(text) for text in (*lines, *(text for name, text in _named(node.attrs) if name in _HEADLINES)))


def cut(text: str) -> str:
    """*text*, shortened to the length of a line in a box."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _named(attrs: Mapping[str, Any]) -> list[tuple[str, str]]:
    both = _is_number(attrs.get("rows")) and _is_number(attrs.get("cols"))
    lines: list[tuple[str, str]] = []
    for name, value in attrs.items():
        if both and name == "rows":
            lines.append((name, f"{_number(value)} rows x {_number(attrs['cols'])} cols"))
        elif not (both and name == "cols"):
            lines.append((name, _line(str(name), value)))
    return lines


def _line(name: str, value: object) -> str:
    words = name.split("_")
    if not (isinstance(value, (int, float)) and _is_number(value)):
        return f"{' '.join(words)} {value}"
    number = _number(value)
    if words[-1] == "nbytes" and isinstance(value, int):
        return " ".join((*words[:-1], format_nbytes(value)))
    if words[-1] in _UNITS:
        shown = [word for word in words[:-1] if word not in _PLAIN]
        return " ".join((*shown, number, _UNITS[words[-1]]))
    if words == ["lanes"]:
        return f"{number} lanes"
    return " ".join((*words, number))


def _number(value: int | float) -> str:
    return f"{value:.9g}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
