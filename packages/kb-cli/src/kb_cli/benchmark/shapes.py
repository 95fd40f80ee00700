"""Problem shapes from a CSV file: each row is one run."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from kb_cli.benchmark.field_values import BadValue, value_of
from kb_cli.benchmark.params import build_params, field_of
from kb_messages import BenchmarkError
from kb_topology import listing

SIZES = ("M", "N", "K")
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
    """The rows of *path*, with the parameters of *texts* in each row. Raises BenchmarkError with file and line."""
    _check_parameters(path, params_type, texts)
    label = str(path)
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    rows: list[Row] = []
    header: list[str] | None = None
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            where = f"{label}:{reader.line_num}"
            if header is None:
                header = _checked_header(where, cells)
            else:
                rows.append(_row(where, header, cells, params_type, texts))
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
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        got = "no such file"
    except IsADirectoryError:
        got = "a directory"
    except UnicodeDecodeError as error:
        got = f"bytes that are not UTF-8, at byte {error.start}"
    except OSError as error:
        got = f"a file that cannot be read ({error.strerror})"
    raise BenchmarkError(str(path), got, _NEEDS)


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


def _row(where: str, header: list[str], cells: list[str], params_type: type[Struct], texts: dict[str, str]) -> Row:
    if len(cells) != len(header):
        raise BenchmarkError(where, f"{len(cells)} cells", f"{len(header)}, one for each column")
    by_column = dict(zip(header, cells, strict=True))
    sizes: dict[str, Any] = {}
    for name in SIZES:
        field = field_of(params_type, name)
        assert field is not None
        try:
            sizes[name] = value_of(by_column.pop(name), field.type, full=True)
        except BadValue as bad:
            raise bad.at(f"{where}: {name}") from None
    return Row(where, by_column, sizes, build_params(params_type, texts, sizes))
