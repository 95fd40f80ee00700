"""Options that set the limits of work without end, for a command and for the processes that it starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from kb_cli.terminal.checked_command import FiniteRange

_OPTIONS = {
    "--max-hours": ("KB_MAX_HOURS", "HOURS", "Refuse a launch whose estimate is more; 0 for any.  [default: 1]"),
    "--watchdog": (
        "KB_WATCHDOG",
        "SECONDS",
        "Stop a kernel that runs so long without a command or a wait; 0 for never.  [default: 30]",
    ),
}


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--max-hours` and `--watchdog` to *command*. They take the place of their environment variables."""
    for name, (variable, unit, said) in reversed(_OPTIONS.items()):
        command = click.option(
            name, type=FiniteRange(min=0), metavar=unit, help=said, expose_value=False, callback=_setter(variable)
        )(command)
    return command


def _setter(variable: str) -> Callable[[click.Context, click.Parameter, float | None], None]:
    def set_variable(ctx: click.Context, _: click.Parameter, value: float | None) -> None:
        if value is not None:
            ctx.with_resource(_environment(variable, f"{value:g}"))

    return set_variable


@contextmanager
def _environment(variable: str, text: str) -> Iterator[None]:
    """Sets *variable* to *text* within the block."""
    before = os.environ.get(variable)
    os.environ[variable] = text
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
