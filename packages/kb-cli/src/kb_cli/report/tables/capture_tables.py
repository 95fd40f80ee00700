"""Tables of `kb show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from msgspec import UnsetType

from kb_cli.report.data.captures import CaptureReport
from kb_cli.run.records.captures import StoredCapture
from kb_cli.terminal.output import new_table
from kb_engine.observe import shown_array


def captures_tables(found: Sequence[StoredCapture]) -> list[Any]:
    """Returns a table with a row for each capture."""
    table = new_table("name", "line", "shape", "dtype", "PE", "number", "value", left=4, text=("value",))
    for each in found:
        state = "kept" if each.file else f"none: {each.why_not}"
        table.add_row(each.name, each.line, _shape(each.shape), each.dtype, str(each.pe), str(each.number), state)
    return [table]


def capture_tables(report: CaptureReport, value: npt.NDArray[Any]) -> list[Any]:
    """Returns the value, its figures, and its difference from a reference."""
    table = new_table("capture", f"{report.name} number {report.number}")
    table.add_row("PE", f"{report.pe} ({report.pe_id})")
    table.add_row("line", report.line)
    table.add_row("shape, dtype", f"{_shape(report.shape)} {report.dtype}")
    table.add_row("least, most, mean", ", ".join(map(_number, (report.least, report.most, report.mean))))
    if report.n_not_finite:
        table.add_row("not finite", f"{report.n_not_finite} elements")
    difference = report.difference
    if not isinstance(difference, UnsetType):
        got, expected = _number(difference.got), _number(difference.expected)
        table.add_row("largest difference", f"{_number(difference.max_abs)} from {difference.against}")
        table.add_row("  there", f"at {difference.at}: got {got}, expected {expected}")
        table.add_row("beyond the default", f"{difference.n_beyond} of {value.size} elements")
    return [table, "", *shown_array(value).strip("\n").split("\n")]


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "1"


def _number(number: float | None) -> str:
    return "not finite" if number is None else f"{number:.6g}"
