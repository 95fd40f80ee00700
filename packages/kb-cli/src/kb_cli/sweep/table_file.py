"""A CSV file whose rows are points: each column is a parameter, or a place of a topology file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from kb_cli.benchmark.shapes import MOST_NBYTES, MOST_ROWS
from kb_messages import BenchmarkError, read_bytes

_NEEDS = "a CSV file in UTF-8 whose first row names parameters or places"


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of *path*: texts by column. Raises BenchmarkError with file and line."""
    label = str(path)
    try:
        text = read_bytes(path, BenchmarkError, MOST_NBYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BenchmarkError(label, f"bytes that are not UTF-8, at byte {error.start}", _NEEDS) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: list[str] = []
    rows: list[dict[str, str]] = []
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            where = f"{label}:{reader.line_num}"
            if not any(cells):
                continue
            if not columns:
                if not all(cells) or len(set(cells)) != len(cells):
                    raise BenchmarkError(where, "a column without a name or a name twice", "one name a column")
                columns = cells
            elif len(cells) != len(columns):
                raise BenchmarkError(
                    where,
                    f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'}",
                    f"{len(columns)}, one for each column",
                )
            elif len(rows) == MOST_ROWS:
                raise BenchmarkError(where, f"more than {MOST_ROWS} rows", "no more", "cut the file in pieces")
            else:
                rows.append(dict(zip(columns, cells, strict=True)))
    except csv.Error as error:
        raise BenchmarkError(f"{label}:{reader.line_num}", str(error), _NEEDS) from None
    if not rows:
        raise BenchmarkError(label, "no rows", _NEEDS)
    return rows
