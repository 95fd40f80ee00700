"""Workloads of other packages, by name or file: the entry points `kb.workloads` make a benchmark file of each.

An entry point is a function that takes the text of the user. It returns the path that errors name and the source of a
benchmark file, or None for a text that it does not know. Its attribute `names` returns the names that it knows.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

from kb_messages import BenchmarkError

GROUP = "kb.workloads"


class FindsWorkloads(Protocol):
    """The function of an entry point."""

    def __call__(self, text: str) -> tuple[Path, bytes] | None:
        """The benchmark file that *text* names; None for another text. Raises KbErrors for a file that is no good."""

    def names(self) -> list[str]:
        """The names of the workloads that need no file."""


def finders() -> list[FindsWorkloads]:
    """The functions of all installed packages. Raises BenchmarkError for one that does not load."""
    found = []
    for each in entry_points(group=GROUP):
        try:
            found.append(cast(FindsWorkloads, each.load()))
        except Exception as error:  # a package of others may raise anything
            raise BenchmarkError(f"entry point {each.name} of {GROUP}", f"{error}", "a function that loads") from error
    return found


def workload_source(text: str) -> tuple[Path, bytes] | None:
    """The benchmark file of the workload *text*: its path in errors, and its source. None for no workload.

    Raises BenchmarkError for a text that several packages know.
    """
    found = [file for finder in finders() if (file := finder(text)) is not None]
    if len(found) > 1:
        listed = ", ".join(str(path) for path, _ in found)
        raise BenchmarkError(f"workload {text!r}", f"several of this name: {listed}", "one")
    return found[0] if found else None


def workload_names() -> list[str]:
    """The names of all workloads of installed packages that need no file."""
    return sorted(name for finder in finders() for name in finder.names())
