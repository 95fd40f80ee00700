"""What `kernel[grid]` is: a function that launches a kernel, and whose errors show the author's code alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_engine.program import authors_traceback
from kb_messages import KbError


def launching(run: Callable[..., Any], grid: Any) -> Callable[..., Any]:
    """A function that calls *run* with its arguments and *grid*.

    The tracebacks of its KbErrors have no frames of kernbench below its own one: the author's kernel comes next.
    """

    def launch(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the line of the test and that of the kernel
        try:
            return run(*arguments, grid=grid, **named)
        except KbError as error:
            raise error.with_traceback(authors_traceback(error)) from None

    return launch
