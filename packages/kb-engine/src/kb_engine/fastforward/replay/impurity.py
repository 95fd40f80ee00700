"""Why a kernel may do more than compute with its own values."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from kb_engine.observe.slow_path import SkipRefusal
from kb_engine.program.author.kernel_lines import line_of

INSTRUCTIONS: Final = frozenset((
    "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "IMPORT_FROM", "POP_EXCEPT",
    "LOAD_BUILD_CLASS", "LOAD_NAME", "STORE_NAME", "LOAD_LOCALS", "GET_AWAITABLE", "MATCH_CLASS",
))  # fmt: skip
"""Those of code that changes or looks at more than its own values, or at attributes by no name of its own, or goes on
after an error."""
ATTRIBUTES: Final = frozenset((
    "known", "place", "holder", "producer", "completion", "readers", "matrix", "operators", "is_pending", "freed",
    "in_registers", "print", "capture", "materialize", "free", "random", "datetime64", "format", "format_map",
    "gi_frame", "cr_frame", "ag_frame", "geterr", "seterr", "geterrcall", "seterrcall", "getbufsize", "setbufsize",
    "get_printoptions", "set_printoptions", "dump", "tofile",
))  # fmt: skip
"""Attributes that tell how the simulation goes on or what time it is, calls whose effect is not in the commands, ways
to attributes by names in a text, or to all names of a frame, settings of numpy, which last after a program, and methods
of arrays that write files."""
CHANGES: Final = frozenset((
    "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update",
    "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "+=", "*=", "|=",
))  # fmt: skip
"""Attributes, instructions and operators that change a list or a dict."""


class Impurity(NamedTuple):
    """What a kernel does, or is given, that may differ between programs: a clause, and where, if that is known."""

    cause: str
    filename: str = ""
    lineno: int = 0

    def why(self, root: Path) -> SkipRefusal:
        """The reason, with a line relative to *root*."""
        line = line_of(self.filename, self.lineno, root) if self.filename else ""
        return SkipRefusal(self.cause, "let the kernel use its arguments and names of its own alone", line)
