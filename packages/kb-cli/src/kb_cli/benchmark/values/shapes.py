"""Problem shapes from a CSV file: each row is one run. Columns that name parameters set them, the others are labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import fields

from kb_cli.benchmark.values.field_values import BadValue, value_of
from kb_cli.benchmark.values.params import ParamsBuilder, as_text, params_code
from kb_messages import BenchmarkError, read_text
from kb_topology import listing

MOST_ROWS = 100_000
"""The most rows of a file. Source: assumed; so many runs take more than a day."""
MOST_NBYTES = 64 << 20
"""The most bytes of a file. Source: assumed; rows of 600 characters each."""
_NAMES = "whose first row names parameters"


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
    rows: list[Row] = []
    header: _Header | None = None
    with params_code(params_type):
        for where, cells in csv_rows(path, _NAMES):
            if header is None:
                header = _Header(where, cells, params_type, texts)
            elif len(rows) == MOST_ROWS:
                raise BenchmarkError(where, f"more than {MOST_ROWS} rows", "no more", "cut the file in pieces")
            else:
                rows.append(header.row(where, cells))
    if not rows:
        raise BenchmarkError(str(path), "no rows" if header else "an empty file", f"a CSV file in UTF-8 {_NAMES}")
    return rows


def csv_rows(path: Path, content: str) -> Iterator[tuple[str, list[str]]]:
    """Yields (`FILE:LINE`, cells) for every row of the CSV file *path* that is not blank. Cells have no outer blanks.

    *content* ends the sentence of errors, such as `whose first row names parameters`. Raises BenchmarkError for bytes
    that are no UTF-8, a quote that does not end, and a cell of more than 131072 characters.
    """
    text = read_text(path, "a CSV file", BenchmarkError, MOST_NBYTES)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                yield f"{path}:{reader.line_num}", stripped
    except csv.Error as error:
        raise BenchmarkError(f"{path}:{reader.line_num}", str(error), f"a CSV file in UTF-8 {content}") from None


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
