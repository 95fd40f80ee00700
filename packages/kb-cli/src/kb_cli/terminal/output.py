"""Writing to standard output: JSON, lines and tables. A progress bar on standard error, on terminals only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rich.table import Table

_PIPE_WIDTH = 240
_LEAST_WIDTH = 124
"""Tables are at least this wide. A narrower terminal wraps their lines, so that no number is cut."""


def emit_json(value: Any) -> None:
    """Write *value* as indented JSON to standard output."""
    emit(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def emit_lines(lines: Iterable[str]) -> None:
    """Write plain lines to standard output."""
    emit("".join(f"{line}\n" for line in lines))


def new_table(*headers: str, left: int | None = None, text: Container[str] = (), wrapped: Container[int] = ()) -> Table:
    """An empty rich table in the style of all commands.

    The first *left* columns hold text, and so do columns whose header is in *text*; others hold numbers, aligned to the
    right. Without *left* all columns hold text. On a narrow terminal only the columns with a number in *wrapped* wrap.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, header in enumerate(headers):
        holds_text = left is None or number < left or header in text
        table.add_column(header, no_wrap=number not in wrapped, justify="left" if holds_text else "right")
    return table


def emit_tables(*renderables: Any) -> None:
    """Write rich renderables to standard output: in colour on a terminal, elsewhere plain and as wide as needed."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    width = max(get_terminal_size().columns, _LEAST_WIDTH) if terminal else _PIPE_WIDTH
    console = Console(file=sys.stdout, highlight=False, markup=False, width=width)
    with console.capture() as capture:
        for renderable in renderables:
            console.print(renderable, soft_wrap=isinstance(renderable, str) and not terminal)
    emit("\n".join(line.rstrip() for line in capture.get().split("\n")))


def emit(text: str) -> None:
    """Write *text* to standard output. When the reader has closed the pipe (`| head`), the rest is dropped silently."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield `report(done, total)`, which draws a bar on standard error, or None when that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task(what, total=None)

    def report(done: int, total: int) -> None:
        progress.start()  # only now, so that an empty bar never shows
        progress.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        progress.stop()
