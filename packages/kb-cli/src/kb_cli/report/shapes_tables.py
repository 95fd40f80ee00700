"""What `kb run --shapes` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from kb_cli.benchmark.shapes import SIZES
from kb_cli.report.verification import sanitizer_texts, verdict_count, verdict_sentences
from kb_cli.run.result import RunResult
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import duration, percent, quantity


def shapes_tables(results: Sequence[RunResult]) -> list[Any]:
    """A row for each run, the totals, and every output that is wrong."""
    failed = [result for result in results if result.verified is False]
    lines = [_table(results), "", f"{_totals(results)}, {verdict_count(results)}"]
    lines += [f"FAILED {_where(result)}: {sentence}" for result in failed for sentence in verdict_sentences(result)]
    lines += [f"{_where(result)}: {text}" for result in results for text in sanitizer_texts(result.sanitizer)]
    missing = [result for result in results if not result.keep.data]
    if missing:
        lines.append(f"data kept for {len(results) - len(missing)} of {len(results)} shapes: {missing[0].keep.why}")
    return [*lines, f"run folder {Path(str(results[0].run_dir)).parent}"]


def _table(results: Sequence[RunResult]) -> Table:
    labels = list(_shape(results[0]))
    names = [number for number, label in enumerate(labels) if label not in SIZES]
    figures = ("latency", "TFLOP/s", "of peak", "HBM GB/s", "verified", "max error")
    table = new_table(*labels, *figures, left=len(labels), wrapped=names)
    for result in results:
        table.add_row(*map(str, _shape(result).values()), *_figures(result))
    return table


def _totals(results: Sequence[RunResult]) -> str:
    total_ps = sum(result.latency_ps for result in results)
    flops = sum(result.flops for result in results)
    achieved = quantity(flops / (total_ps / 1e12), "FLOP/s") if total_ps else "-"
    count = "1 shape" if len(results) == 1 else f"{len(results)} shapes"
    return f"{count} on {results[0].topology}: {duration(total_ps)} in all, {achieved} achieved"


def _figures(result: RunResult) -> Iterable[str]:
    peak = percent(result.achieved_flops / result.peak_flops) if result.peak_flops else "-"
    hbm = result.bytes.get("hbm")
    gbs = f"{(hbm.read + hbm.write) / result.latency_ns:.1f}" if hbm and result.latency_ns else "-"
    verified = {None: "-", True: "ok", False: "FAILED"}[result.verified]
    error = "-" if result.max_abs_err is None else f"{result.max_abs_err:.3g}"
    return duration(result.latency_ps), f"{result.achieved_flops / 1e12:.3f}", peak, gbs, verified, error


def _where(result: RunResult) -> str:
    return " ".join(f"{name}={value}" for name, value in _shape(result).items())


def _shape(result: RunResult) -> dict[str, object]:
    return result.shape if isinstance(result.shape, dict) else {}
