"""Problem shapes from a CSV file: each row is one run."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import fields

from kb_cli.benchmark.field_values import BadValue, value_of
from kb_cli.benchmark.params import ParamsBuilder, field_of, params_code
from kb_messages import BenchmarkError, read_bytes
from kb_topology import listing

SIZES = ("M", "N", "K")
MOST_ROWS = 100_000
"""Source: assumed; so many runs take more than a day."""
MOST_NBYTES = 64 << 20
"""Of a file. Source: assumed; rows of 600 characters each."""
_NEEDS = "a CSV file in UTF-8 with columns M, N and K"


class Row(NamedTuple):
    """One row of the file: its place (`FILE:LINE`), its cells by column, and the parameters that they set."""

    where: str
    labels: dict[str, str]
    sizes: dict[str, int]
    params: Any

    @property
    def cells(self) -> dict[str, object]:
        """Labels and sizes, in the order in which reports show them."""
        return {**self.labels, **self.sizes}


def read_shapes(path: Path, params_type: type[Struct], texts: dict[str, str]) -> list[Row]:
    """The rows of *path*, with the parameters of *texts* in each row. Every row is checked before one is returned.

    Raises BenchmarkError with file and line.
    """
    _check_parameters(path, params_type, texts)
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


def _check_parameters(path: Path, params_type: type[Struct], texts: dict[str, str]) -> None:
    for name in SIZES:
        if field_of(params_type, name) is None:
            raise BenchmarkError("--shapes", f"a benchmark without parameter {name}", "one with M, N and K")
        if name in texts:
            raise BenchmarkError(f"-p {name}", "a value beside --shapes", "one of the two", f"{path} sets {name}")


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path, BenchmarkError, MOST_NBYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BenchmarkError(str(path), f"bytes that are not UTF-8, at byte {error.start}", _NEEDS) from None


class _Header:
    """The columns of a file. A size that was read once is not read again: layers of a model repeat them."""

    def __init__(self, where: str, columns: list[str], params_type: type[Struct], texts: dict[str, str]) -> None:
        self._columns = _checked_header(where, columns)
        self._builder = ParamsBuilder(params_type, texts)
        self._types = {field.encode_name: field.type for field in fields(params_type) if field.encode_name in SIZES}
        self._sizes: dict[tuple[str, str], Any] = {}

    def row(self, where: str, cells: list[str]) -> Row:
        """The row of *cells* at *where*. Raises BenchmarkError with the place."""
        if len(cells) != len(self._columns):
            raise BenchmarkError(where, f"{len(cells)} cells", f"{len(self._columns)}, one for each column")
        labels = dict(zip(self._columns, cells, strict=True))
        sizes = {name: self._size(where, name, labels.pop(name)) for name in SIZES}
        try:
            return Row(where, labels, sizes, self._builder.build(sizes))
        except BenchmarkError as error:
            raise BenchmarkError(f"{where}: {error.where}", error.got, error.needs, error.fix) from None

    def _size(self, where: str, name: str, cell: str) -> Any:
        if (name, cell) not in self._sizes:
            try:
                self._sizes[name, cell] = value_of(cell, self._types[name], full=True)
            except BadValue as bad:
                raise bad.at(f"{where}: {name}") from None
        return self._sizes[name, cell]


def _checked_header(where: str, columns: list[str]) -> list[str]:
    for number, column in enumerate(columns):
        if not column:
            raise BenchmarkError(where, f"no name for column {number + 1}", "a name for every column")
        if column in columns[:number]:
            raise BenchmarkError(where, f"two columns {column}", "one", "rename or remove one of them")
    missing = [name for name in SIZES if name not in columns]
    if missing:
        found = f"it has {listing(columns)}"
        raise BenchmarkError(where, f"no column {', '.join(missing)}", "columns M, N and K in upper case", found)
    return columns
