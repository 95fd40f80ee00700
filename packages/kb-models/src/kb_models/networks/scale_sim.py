"""SCALE-Sim's topology tables: a row of numbers separated by commas is a layer, a convolution or a matrix product.

Source of the format: SCALE-Sim, `topology_utils.py` of its versions 1 to 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from kb_messages import BenchmarkError

_CELL = re.compile(r'[ \t]*(?:"([^"]*)"[ \t]*|((?!")[^,]*))(?:,|$)')
_SPARSITY = re.compile(r"([0-9]{1,9})\s*:\s*([0-9]{1,9})")
_MOST = 1 << 31
"""No size of a layer is larger. Source: assumed; a tensor of a larger side fits no chip."""
_CONVOLUTION_CELLS = 8
_PRODUCT_CELLS = 4


class Convolution(NamedTuple):
    """A convolution of one image. `ifmap` is padded already: height and width; `filter` and `stride` likewise.

    `dense` is false for a row whose filters are sparse, as a column N:M of version 3 says. `line` is the row's line.
    """

    name: str
    ifmap: tuple[int, int]
    filter: tuple[int, int]
    channels: int
    filters: int
    stride: tuple[int, int]
    depthwise: bool = False
    dense: bool = True
    line: int = 0

    @property
    def ofmap(self) -> tuple[int, int]:
        """Height and width of the result. SCALE-Sim counts a last window that reaches over the edge."""
        height, width = (
            -(-(size - window + step) // step)
            for size, window, step in zip(self.ifmap, self.filter, self.stride, strict=True)
        )
        return height, width

    @property
    def over_the_edge(self) -> tuple[int, int]:
        """Rows and columns by which the last window reaches over the edge."""
        down, along = (
            max(0, (count - 1) * step + window - size)
            for count, size, window, step in zip(self.ofmap, self.ifmap, self.filter, self.stride, strict=True)
        )
        return down, along


class Product(NamedTuple):
    """A matrix product of M x K by K x N, or `batch` of them."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    dense: bool = True
    line: int = 0


Layer: TypeAlias = Convolution | Product


class _Cell(NamedTuple):
    text: str
    where: str
    """The place in errors: file, line and column."""


class _Row(NamedTuple):
    cells: list[_Cell]
    line: int


def looks_like_table(text: str) -> bool:
    """Whether *text* is a table of layers, good or damaged: most lines have cells that are numbers."""
    rows = [line.split(",") for line in text.splitlines() if line.strip(" \t,")]
    numbers = [sum(cell.strip().isdigit() for cell in row) for row in rows]
    return bool(rows) and sum(count >= 3 for count in numbers) * 2 >= len(rows) - 1 and max(numbers) >= 3


def read_table(label: str, text: str) -> list[Layer]:
    """The layers of the table *text* of the file *label*.

    Raises BenchmarkError with file, line and column for a cell that is no number, for a row with too few cells, and for
    a filter that is larger than its ifmap; and for a table without layers.
    """
    rows = [row for row in _rows(label, text) if any(cell.text for cell in row.cells)]
    header = rows.pop(0) if rows and _is_header(rows[0]) else None
    if not rows:
        raise BenchmarkError(
            label, "a table without layers", "rows such as Conv1,224,224,7,7,3,64,2, or FC,1,1000,512,"
        )
    layer = _reader(label, header, rows[0])
    taken: set[str] = set()
    return [layer(row, _free_name(row, taken)) for row in rows]


def _rows(label: str, text: str) -> list[_Row]:
    found = []
    for line, content in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        cells, at = [], 0
        while at < len(content):
            match = _CELL.match(content, at)
            if match is None:
                raise BenchmarkError(f"{label}:{line}:{at + 1}", "text behind a closing quote", "a comma")
            quoted, plain = match.groups()
            start = match.start(1 if quoted is not None else 2)
            given = quoted if quoted is not None else plain
            column = start + len(given) - len(given.lstrip()) + 1
            cells.append(_Cell(given.strip(), f"{label}:{line}:{column}"))
            at = match.end()
        found.append(_Row(cells, line))
    return found


def _is_header(row: _Row) -> bool:
    """A first row is a header if no cell behind its name begins with a digit or a sign."""
    texts = [cell.text for cell in row.cells[1:] if cell.text]
    return not any(text[0].isdigit() or text[0] in "+-." for text in texts)


def _reader(label: str, header: _Row | None, first: _Row) -> Callable[[_Row, str], Layer]:
    """The function that reads each row: a table has convolutions or products alone, by its header or first row."""
    if header is not None:
        names = [cell.text.lower() for cell in header.cells]
        if {"m", "n", "k"} <= set(names):
            if names[1:4] != ["m", "n", "k"]:
                got = f"the columns {', '.join(cell.text for cell in header.cells[1:4])}"
                needs = "Layer, M, N, K: SCALE-Sim takes its columns in this order, whatever the header says"
                raise BenchmarkError(header.cells[1].where, got, needs)
            return _product
        if any(word in name for name in names for word in ("ifmap", "filter", "stride")):
            return _convolution
    filled = [cell for cell in first.cells if cell.text]
    return _convolution if len(filled) >= _CONVOLUTION_CELLS else _product


def _free_name(row: _Row, taken: set[str]) -> str:
    """The name of the layer, with a number behind a name that an earlier row has. Adds the name to *taken*."""
    given = "".join(char if char.isprintable() else "_" for char in row.cells[0].text[:80])
    name, number = given or f"line{row.line}", 2
    while name in taken:
        name, number = f"{given or 'line'}.{number}", number + 1
    taken.add(name)
    return name


def _convolution(row: _Row, name: str) -> Convolution:
    values = _numbers(row, _CONVOLUTION_CELLS, "name, ifmap h, ifmap w, filter h, filter w, channels, filters, stride")
    extra = row.cells[_CONVOLUTION_CELLS:]
    stride_w = values[6]
    if extra and extra[0].text.isdigit():
        stride_w = _number(extra.pop(0))
    dense = _rest(extra)
    for place, side in ((2, "height"), (3, "width")):
        if values[place] > values[place - 2]:
            got = f"a filter of {side} {values[place]} over an ifmap of {side} {values[place - 2]}"
            needs = "a filter that is not larger than its ifmap, which is padded already in these tables"
            raise BenchmarkError(row.cells[place + 1].where, got, needs)
    return Convolution(
        name=name,
        ifmap=(values[0], values[1]),
        filter=(values[2], values[3]),
        channels=values[4],
        filters=values[5],
        stride=(values[6], stride_w),
        depthwise="DP" in row.cells[0].text,
        dense=dense,
        line=row.line,
    )


def _product(row: _Row, name: str) -> Product:
    m, n, k = _numbers(row, _PRODUCT_CELLS, "name, M, N, K")
    extra = row.cells[_PRODUCT_CELLS:]
    at = 1 if len(extra) > 1 and (not extra[0].text or _SPARSITY.fullmatch(extra[0].text)) else 0
    batch = _number(extra.pop(at)) if len(extra) > at and extra[at].text.isdigit() else 1
    return Product(name, m, n, k, batch, _rest(extra), row.line)


def _numbers(row: _Row, count: int, needs: str) -> list[int]:
    if len(row.cells) < count:
        where = row.cells[-1].where
        raise BenchmarkError(where, f"a row of {len(row.cells)} cells", f"{count} or more: {needs}")
    return [_number(cell) for cell in row.cells[1:count]]


def _number(cell: _Cell) -> int:
    if not (cell.text.isascii() and cell.text.isdigit()):
        got = f"the cell {cell.text[:40]!r}" if cell.text else "an empty cell"
        raise BenchmarkError(cell.where, got, "a whole number of at least 1")
    value = int(cell.text) if len(cell.text) < 20 else _MOST
    if not 0 < value < _MOST:
        raise BenchmarkError(cell.where, f"{cell.text[:40]}", f"a whole number from 1 to {_MOST - 1}")
    return value


def _rest(cells: Sequence[_Cell]) -> bool:
    """Whether the filters are dense, by the *cells* behind the numbers: N:M, remarks and nothing else.

    Text behind the last comma is a remark, because SCALE-Sim drops that cell.
    """
    dense = True
    for number, cell in enumerate(cells):
        if cell.text.startswith("#"):
            break
        sparsity = _SPARSITY.fullmatch(cell.text)
        if sparsity:
            dense = dense and sparsity[1] == sparsity[2]
        elif cell.text and (number < len(cells) - 1 or cell.text[0].isdigit()):
            needs = "a ratio of sparsity N:M, a remark, or nothing"
            raise BenchmarkError(cell.where, f"the cell {cell.text[:40]!r}", needs)
    return dense
