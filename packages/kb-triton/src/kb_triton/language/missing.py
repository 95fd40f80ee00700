"""The error for a name that `tl` does not have: a sentence at the kernel's line, and an AttributeError for hasattr."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from kb_messages import KernelError
from kb_triton.language import program


class MissingNameError(KernelError, AttributeError):
    """A name that a module of Triton does not have here."""


def missing(module: str, name: str, names: Iterable[str] = (), fix: str = "") -> MissingNameError:
    """The error for *name* of *module*, such as `tl`. It lists the ones of *names* that are near to *name*."""
    near = get_close_matches(name, list(names), n=3)
    if near:
        fix = f"did you mean {' or '.join(f'{module}.{each}' for each in near)}?"
    where = program.line() if program.is_running() else module
    return MissingNameError(where, f"{module}.{name}", f"a name that {module} has here", fix)
