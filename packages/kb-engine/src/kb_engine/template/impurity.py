"""Why a kernel may do more than compute with its own values."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kb_engine.observe.by_event import WhyNot
from kb_engine.program.kernel_lines import line_of


class Impurity(NamedTuple):
    """What a kernel does, or is given, that may differ between programs: a clause, and where, if that is known."""

    cause: str
    filename: str = ""
    lineno: int = 0

    def why(self, root: Path) -> WhyNot:
        """The reason, with a line relative to *root*."""
        line = line_of(self.filename, self.lineno, root) if self.filename else ""
        return WhyNot(self.cause, "let the kernel use its arguments and names of its own alone", line)
