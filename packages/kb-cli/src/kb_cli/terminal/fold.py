"""Tables on a terminal that is too narrow for them: texts wrap, and columns go below each other. No number is cut."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

_GAP = 3
"""The characters between two columns of a table in the style of all commands."""
_LEAST_TEXT = 16
"""The least width to which a column of texts wraps. A narrower terminal gets the column in another part of the
table."""


def folded(table: Table, width: int) -> list[Table]:
    """Returns *table* as tables of at most *width* characters, with all its cells.

    First, columns of texts (aligned to the left) wrap, the widest most. When that does not suffice, the table is cut
    between columns. Each part begins with the first column, so each row keeps its name. A number that alone is wider
    than the terminal stays whole, and the terminal wraps its line.
    """
    columns = list(table.columns)
    parts: list[list[Column]] = []
    for column in columns[1:]:
        if parts and _least([columns[0], *parts[-1], column]) <= width:
            parts[-1].append(column)
        else:
            parts.append([column])
    return [_part(table, [columns[0], *part], width) for part in parts or [[]]]


def _part(table: Table, columns: Sequence[Column], width: int) -> Table:
    """Returns the *columns* of *table* as a table of at most *width* characters, where wrapped texts allow it."""
    part = Table(box=table.box, pad_edge=table.pad_edge, show_edge=table.show_edge)
    for column, allowed in zip(columns, _widths(columns, width), strict=True):
        part.add_column(
            column.header,
            justify=column.justify,
            overflow="fold",
            no_wrap=allowed >= _natural(column),
            min_width=min(allowed, _natural(column)),
            max_width=allowed,
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        part.add_row(*cells)
    return part


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Returns the width of each of *columns*: its own, or less for texts, so that all fit into *width* if they can."""
    widths = [_natural(column) for column in columns]
    surplus = sum(widths) + _GAP * (len(columns) - 1) - width
    while surplus > 0:
        wide = [at for at, column in enumerate(columns) if _wraps(column) and widths[at] > _LEAST_TEXT]
        if not wide:
            break
        widths[max(wide, key=lambda at: widths[at])] -= 1
        surplus -= 1
    return widths


def _least(columns: Sequence[Column]) -> int:
    """Returns the width of a table of *columns* whose texts wrap as far as they may."""
    least = (min(_natural(column), _LEAST_TEXT) if _wraps(column) else _natural(column) for column in columns)
    return sum(least) + _GAP * (len(columns) - 1)


def _wraps(column: Column) -> bool:
    return column.justify == "left"


def _natural(column: Column) -> int:
    return max(_length(cell) for cell in (column.header, *column.cells))


def _length(cell: RenderableType) -> int:
    text = cell.plain if isinstance(cell, Text) else str(cell)
    return max(map(cell_len, text.split("\n")))
