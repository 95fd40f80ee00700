"""The files of a sweep: a page with pictures, the pictures alone, and all points as a table."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from kb_cli.report.html.sweep_page import picture_files, sweep_page
from kb_cli.run.base.files import write_whole
from kb_cli.sweep.sweep import SweepResult
from kb_cli.sweep.sweep_file import write_sweep
from kb_cli.terminal.escape import file_stem
from kb_cli.terminal.output_file import check_folder, refuse_overwriting
from kb_dataexec.files import writing
from kb_messages import KbError

_ENDINGS = (".csv", ".parquet")


def write_report(out: Path, result: SweepResult) -> Path:
    """Writes `report.html`, its pictures as SVG, and `sweep.json` into a folder below *out*. Returns the folder.

    The bytes of the files do not depend on the points that were known before. The folder is named after the benchmark
    and the swept values, so the same sweep writes the same folder again, and other points, costs or a tolerance write
    another one.
    """
    points = [list(point.values.values()) for point in result.points]
    swept = [result.topology, result.params, result.seed, result.axes, points, result.over, result.costs]
    config = msgspec.json.encode(
        [*swept, *([result.within] if result.within else []), *([result.best] if result.best else [])], order="sorted"
    )
    name = f"{file_stem(result.benchmark, 'bench')}-{hashlib.sha256(config).hexdigest()[:12]}"
    folder = out / name
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "report.html", sweep_page(result))
    for stem, picture in picture_files(result).items():
        write_whole(folder / f"{stem}.svg", f"{picture}\n".encode())
    write_sweep(folder, result)
    return folder


def check_table_file(path: Path, *inputs: Path) -> None:
    """Raises KbError for a table that cannot be written to *path*: another ending, one of *inputs*, or no extra."""
    if path.suffix not in _ENDINGS:
        raise KbError("-o", path.suffix or repr(path.name), " or ".join(_ENDINGS))
    check_folder("-o", path)
    if path.suffix == ".parquet":
        _duckdb()
    if any(each.exists() and path.exists() and os.path.samefile(path, each) for each in inputs):
        refuse_overwriting("-o", path, *inputs)


def write_table(path: Path, result: SweepResult) -> None:
    """Writes all points to *path*, one row each: axes, results, and the reason for which a point has none.

    A sweep that looks for the best mapping has the column `best`, which is true for points that have it.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_rows(result))
    if path.suffix == ".csv":
        write_whole(path, text.getvalue().encode())
        return
    plain = path.with_name(f".{path.name}.{os.getpid()}.csv")
    with writing(path):
        try:
            plain.write_text(text.getvalue(), encoding="utf-8")
            part = plain.with_suffix(".part")
            from_csv, to = (str(each).replace("'", "''") for each in (plain, part))
            _duckdb().sql(f"COPY (SELECT * FROM read_csv('{from_csv}', header=true)) TO '{to}' (FORMAT parquet)")
            os.replace(part, path)
        finally:
            plain.unlink(missing_ok=True)


def _duckdb() -> Any:
    """Returns the module duckdb. Raises KbError where the extra with it is not installed."""
    try:
        return import_module("duckdb")
    except ImportError:
        raise KbError("-o", "no module duckdb", "the extra parquet", "pip install 'kb-cli[parquet]'") from None


def _rows(result: SweepResult) -> Iterator[list[object]]:
    names = ["latency_ps", "flops", "achieved_flops", "peak_flops", "memory_share", "verified", "max_abs_err"]
    kinds = sorted({kind for point in result.points if point.result for kind in point.result.utilization})
    marked = {number for each in result.configurations for number in each.points}
    column = ["best"] if result.best else []
    yield [*result.axes, *column, "chip", *names, *(f"{kind}_utilization" for kind in kinds), "bounded_by", "error"]
    for number, point in enumerate(result.points):
        values: list[object] = [point.values[axis] for axis in result.axes]
        values += [str(number in marked).lower() for _ in column]
        found = point.result
        if found is None:
            yield [*values, *[None] * (2 + len(names) + len(kinds)), point.error]
        else:
            shares = [found.utilization.get(kind) for kind in kinds]
            yield [*values, found.topology, *(getattr(found, name) for name in names), *shares, found.bounded_by, ""]
