"""A failure of kb itself: one paragraph says that it is a bug, and what to report."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from kb_cli.terminal.escape import bounded

DEBUG = "KB_DEBUG"
"""The environment variable with which kb prints the traceback of a failure."""


def failure_text(error: BaseException, arguments: Sequence[str]) -> str:
    """Returns the paragraph on *error*, with which `kb *arguments*` ended. Writes the traceback to a file.

    With `KB_DEBUG=1` the traceback is in the text, and no file is written.
    """
    trace = "".join(traceback.format_exception(error))
    last = traceback.format_exception_only(error)[-1].strip()
    where = traceback.extract_tb(error.__traceback__)[-1:]
    at = f" (in {where[0].name}, {os.path.basename(where[0].filename)}:{where[0].lineno})" if where else ""
    shown = trace if os.environ.get(DEBUG, "0") not in ("", "0") else ""
    return (
        f"kb itself failed: {last[:500]}{at}. This is a bug in kb, not a mistake of yours. Please report it to the "
        f"kernbench developers, with this paragraph (kb {_version()}, Python {platform.python_version()}, "
        f"{sys.platform}; kb {shlex.join(arguments)}) and {'the traceback below' if shown else _saved(trace)}."
        + (f"\n{shown}" if shown else "")
    )


def _saved(trace: str) -> str:
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="kb-failure-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(bounded(trace))
    except OSError:
        return f"the traceback, which {DEBUG}=1 prints"
    return f"the traceback in {file.name}"


def _version() -> str:
    try:
        return version("kb-cli")
    except PackageNotFoundError:
        return "of an unknown version"
