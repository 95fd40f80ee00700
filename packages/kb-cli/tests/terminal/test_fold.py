"""Tables on narrow terminals: every cell is there, no line is too long, and no number is cut."""

from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from kb_cli.terminal.fold import folded
from kb_cli.terminal.output import new_table, styled

BLOCKS = [
    ("pe_dma_read", "8", "83.7 %", "100.0 %", "sip0.cube0.pe0.pe_dma"),
    ("pe_fetch_store", "8", "15.7 %", "15.7 %", "sip0.cube0.pe0.pe_fetch_store"),
    ("link", "1,234,567", "12.9 %", "68.5 %", "sip0.cube0.hbm0 -> sip0.cube0.xbar0"),
]


def blocks() -> Table:
    table = new_table("block", "count", "busy", "busiest", "which", left=1, text=("which",))
    for row in BLOCKS:
        table.add_row(*row)
    return table


def lines_of(tables: list[Table], width: int) -> list[str]:
    written = StringIO()
    console = Console(file=written, width=width, color_system=None)
    for table in tables:
        console.print(table)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def test_a_table_that_fits_stays_as_it_is() -> None:
    (only,) = folded(blocks(), 90)
    assert lines_of([only], 90) == lines_of([blocks()], 90)
    assert [column.header for column in only.columns] == ["block", "count", "busy", "busiest", "which"]


def test_texts_wrap_before_columns_move() -> None:
    (only,) = folded(blocks(), 80)
    lines = lines_of([only], 80)
    assert max(map(len, lines)) == 80
    assert [line[:4] for line in lines[2:]] == ["pe_d", "pe_f", "link", "    "]
    assert lines[-2].endswith("sip0.cube0.hbm0 ->")
    assert lines[-1].strip() == "sip0.cube0.xbar0"


@pytest.mark.parametrize("width", [30, 36, 50, 60])
def test_columns_move_below_and_each_part_names_its_rows(width: int) -> None:
    tables = folded(blocks(), width)
    assert len(tables) > 1
    lines = lines_of(tables, width)
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("link") for line in lines) == len(tables)
    assert [column.header for table in tables for column in list(table.columns)[1:]] == [
        "count",
        "busy",
        "busiest",
        "which",
    ]
    text = "\n".join(lines)
    assert all(number in text for row in BLOCKS for number in row[1:4])


def test_a_number_that_is_wider_than_the_terminal_stays_whole() -> None:
    table = new_table("name", "value", left=1)
    table.add_row("x", "123,456,789,012")
    assert any("123,456,789,012" in line for line in lines_of(folded(table, 12), 40))


def test_a_table_of_one_column_and_cells_with_styles() -> None:
    table = new_table("verified")
    table.add_row(styled("ok", "green"))
    assert lines_of(folded(table, 50), 50)[-1] == "ok"
    assert lines_of(folded(new_table("empty"), 50), 50)[0] == "empty"
