"""Writes JSON, lines and tables to standard output, and a progress bar to standard error, on terminals only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from io import StringIO
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from kb_cli.terminal.escape import shown, shown_json
from kb_cli.terminal.streams import drop_output, has_colour, is_terminal
from kb_messages import KbError, ascii_json, encodable, encode_json, is_encodable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_PIPE_WIDTH = 240
GOOD, BAD, WARNING = "green", "bold red", "yellow"
"""Styles on a terminal."""


def emit_json(value: Any) -> None:
    """Writes *value* as indented JSON to standard output."""
    text = shown_json(msgspec.json.format(encode_json(value), indent=2).decode()) + "\n"
    emit(text if is_encodable(text, getattr(sys.stdout, "encoding", None)) else ascii_json(text))


def emit_lines(lines: Iterable[str]) -> None:
    """Writes plain lines to standard output."""
    emit("".join(f"{shown(line)}\n" for line in lines))


def new_table(*headers: str, left: int | None = None, text: Container[str] = (), wrapped: Container[int] = ()) -> Table:
    """Returns an empty rich table in the style of all commands.

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


def styled(text: str, style: str) -> Text:
    """Returns *text* for `emit_tables`, in *style* on a terminal that has colours."""
    from rich.text import Text

    return Text(shown(text), style)


def emit_tables(*renderables: Any) -> None:
    """Writes rich renderables to standard output.

    On a terminal they fold to its width, and have colours where `has_colour` says so. Elsewhere they are plain and as
    wide as needed.
    """
    emit(_rendered(renderables, is_terminal(sys.stdout), has_colour(sys.stdout)))


def as_text(*renderables: Any) -> str:
    """Returns rich renderables as plain text, as wide as needed."""
    return _rendered(renderables, terminal=False, colour=False)


def _rendered(renderables: Iterable[Any], terminal: bool, colour: bool) -> str:
    from rich.console import Console
    from rich.segment import Segment, Segments
    from rich.table import Table
    from rich.text import Text

    from kb_cli.terminal.fold import folded

    width = get_terminal_size().columns if terminal else _PIPE_WIDTH
    written = StringIO()
    console = Console(
        file=written,
        force_terminal=colour,
        force_jupyter=False,  # in a notebook, rich would display the text in place of writing it
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        width=width,
    )
    for renderable in renderables:
        if isinstance(renderable, (str, Text)):
            text = renderable if isinstance(renderable, Text) else Text(shown(renderable))
            console.print(text, soft_wrap=not terminal)
            continue
        fits = not terminal or not isinstance(renderable, Table) or renderable.box is None
        for number, each in enumerate([renderable] if fits else folded(renderable, width)):
            parts = [Segment(shown(part.text), part.style, part.control) for part in console.render(each)]
            console.print(*[""] * (number > 0), Segments(parts), sep="\n")
    return "\n".join(line.rstrip() for line in written.getvalue().split("\n"))


def emit(text: str) -> None:
    """Writes *text* to standard output. When the reader has closed the pipe (`| head`), the rest is dropped silently.

    Raises KbError when standard output is closed or leads to a full disk.
    """
    got = "a closed stream"
    try:
        if sys.stdout is not None:
            _write(sys.stdout, text)
            return
    except BrokenPipeError:
        drop_output()
        return
    except OSError as error:
        got = f"an error of the system ({error.strerror or error})"
    except ValueError:
        pass
    drop_output()
    raise KbError("standard output", got, "a file or stream that can be written")


def _write(stream: TextIO, text: str) -> None:
    stream.write(encodable(text, stream.encoding))
    stream.flush()


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yields `report(done, total)`, which draws a bar on standard error, or None when that is no terminal."""
    if not is_terminal(sys.stderr):
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
