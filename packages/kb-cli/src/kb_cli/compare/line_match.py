"""Which kernel line of one benchmark file is which of another, from a diff of the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher


class LineMatch:
    """Kernel lines of a second source by those of the first, and back.

    Lines of other files than the benchmark's stand for themselves. A line that was changed matches the line in its
    place; a line that was added or removed matches none.
    """

    def __init__(self, first: tuple[str, Sequence[str]], second: tuple[str, Sequence[str]]) -> None:
        (self._file, before), (self._other, after) = first, second
        self._back = _pairs(before, after)
        self._forth = {number: other for other, number in self._back.items()}

    def first(self, line: str) -> str:
        """The line of the first source that *line* of the second is; "" for a line that the first does not have."""
        return _matched(line, self._other, self._file, self._back)

    def second(self, line: str) -> str:
        """The line of the second source that *line* of the first is; "" for a line that the second does not have."""
        return _matched(line, self._file, self._other, self._forth)


def _matched(line: str, file: str, other: str, numbers: Mapping[int, int]) -> str:
    name, _, number = line.rpartition(":")
    if name != file or not number.isdecimal():
        return line
    found = numbers.get(int(number))
    return "" if found is None else f"{other}:{found}"


def _pairs(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """The number of a line of *before* by that of *after*, from 1."""
    if before == after:
        return {number: number for number in range(1, len(after) + 1)}
    found: dict[int, int] = {}
    for _, start, end, other, other_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for step in range(min(end - start, other_end - other)):
            found[other + step + 1] = start + step + 1
    return found
