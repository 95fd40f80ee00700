"""Problem shapes from a CSV file: each row is one run. Columns that name parameters set them, the others are labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import fields

from kb_cli.benchmark.values.field_values import BadValue, value_of
from kb_cli.benchmark.values.params import ParamsBuilder, as_text, params_code
from kb_messages import BenchmarkError, read_bytes
from kb_topology import listing

MOST_ROWS = 100_000
"""The most rows of a file. Source: assumed; so many runs take more than a day."""
MOST_NBYTES = 64 << 20
"""The most bytes of a file. Source: assumed; rows of 600 characters each."""
_NEEDS = "a CSV file in UTF-8 whose first row names parameters"


class Row(NamedTuple):
    """One row of the file: its place (`FILE:LINE`), its cells by column, and all parameters of its run.

    `cells` has the labels and then the values that the row sets, as reports show them.
    """

    where: str
    cells: dict[str, object]
    params: Any


def read_shapes(path: Path, params_type: type[Struct], texts: dict[str, str]) -> list[Row]:
    """Returns the rows of *path*, with the parameters of *texts* in each row. Every row is checked before one is
    returned.

    Raises BenchmarkError with file and line.
    """
    label = str(path)
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    rows: list[Row] = []
    header: _Header | None = None
    try:
        with params_code(params_type):
            for cells in reader:
                cells = [cell.strip() for cell in cells]
                if not any(cells):
                    continue
                where = f"{label}:{reader.line_num}"
                if header is None:
                    header = _Header(where, cells, params_type, texts)
                elif len(rows) == MOST_ROWS:
                    raise BenchmarkError(where, f"more than {MOST_ROWS} rows", "no more", "cut the file in pieces")
                else:
                    rows.append(header.row(where, cells))
    except csv.Error as error:
        raise BenchmarkError(f"{label}:{reader.line_num}", str(error), _NEEDS) from None
    if not rows:
        raise BenchmarkError(label, "no rows" if header else "an empty file", _NEEDS)
    return rows


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path, BenchmarkError, MOST_NBYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BenchmarkError(str(path), f"bytes that are not UTF-8, at byte {error.start}", _NEEDS) from None


class _Header:
    """The columns of a file. A cell that was read once is not read again: layers of a model repeat cells."""

    def __init__(self, where: str, columns: list[str], params_type: type[Struct], texts: dict[str, str]) -> None:
        known = {field.encode_name: field.type for field in fields(params_type)}
        _check_header(where, columns, known, texts)
        self._columns = columns
        self._builder = ParamsBuilder(params_type, texts)
        self._types = {name: known[name] for name in columns if name in known}
        self._values: dict[tuple[str, str], Any] = {}

    def row(self, where: str, cells: list[str]) -> Row:
        """Returns the row of *cells* at *where*. Raises BenchmarkError with the place."""
        if len(cells) != len(self._columns):
            raise BenchmarkError(
                where,
                f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'}",
                f"{len(self._columns)}, one for each column",
            )
        labels = dict(zip(self._columns, cells, strict=True))
        values = {name: self._value(where, name, labels.pop(name)) for name in self._types}
        shown = {name: as_text(value) for name, value in values.items()}
        try:
            return Row(where, {**labels, **shown}, self._builder.build(values))
        except BenchmarkError as error:
            raise BenchmarkError(f"{where}: {error.where}", error.got, error.needs, error.fix) from None

    def _value(self, where: str, name: str, cell: str) -> Any:
        if (name, cell) not in self._values:
            try:
                self._values[name, cell] = value_of(cell, self._types[name], full=True)
            except BadValue as bad:
                raise bad.at(f"{where}: {name}") from None
        return self._values[name, cell]


def _check_header(where: str, columns: list[str], known: Iterable[str], texts: Mapping[str, str]) -> None:
    """Raises BenchmarkError for wrong *columns* of a file.

    Wrong are a column without a name, a name that stands twice, columns of which none is *known* as a parameter, a
    column that differs from a parameter by case alone, and one that `-p` sets too.
    """
    names = list(known)
    for number, column in enumerate(columns):
        if not column:
            raise BenchmarkError(where, f"no name for column {number + 1}", "a name for every column")
        if column in columns[:number]:
            raise BenchmarkError(where, f"two columns {column}", "one", "rename or remove one of them")
        if column in texts:
            raise BenchmarkError(f"-p {column}", "a value beside --shapes", "one of the two", f"{where} sets {column}")
        near = next((name for name in names if name.lower() == column.lower()), column)
        if near != column and near not in columns:
            raise BenchmarkError(where, f"a column {column}", f"{near}, as the parameter is written", "rename it")
    if not any(column in names for column in columns):
        found = f"it has {listing(columns)}"
        raise BenchmarkError(where, "no column of a parameter", f"at least one of {listing(names)}", found)
