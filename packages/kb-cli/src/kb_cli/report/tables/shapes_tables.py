"""Tables of `kb run --shapes`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from kb_cli.report.data.performance import operation, peak_share, rate
from kb_cli.report.elements.verdicts import (
    failed_line,
    failure_causes,
    sanitizer_texts,
    verdict_count,
    verdict_sentences,
    verdict_style,
    verdict_word,
)
from kb_cli.run.base.result import Roofline, RunResult, was_sampled
from kb_cli.terminal.output import BAD, WARNING, new_table, styled
from kb_cli.terminal.units import PS_PER_NS, duration, percent, value_text


def shapes_tables(results: Sequence[RunResult]) -> list[Any]:
    """Returns a row for each run, the totals, and every wrong output. The last line says how many runs failed."""
    failed = [result for result in results if result.verified is False]
    lines: list[Any] = [_table(results), "", f"{_totals(results)}, {verdict_count(results)}"]
    lines += [
        styled(f"FAILED {_where(result)}: {sentence}", BAD)
        for result in failed
        for sentence in verdict_sentences(result)
    ]
    lines += [f"{_where(result)}: {text}" for result in results for text in sanitizer_texts(result)]
    missing = [result for result in results if result.keep.missing]
    if missing:
        text = f"{len(missing)} of {_shapes(len(results))}: {missing[0].keep.missing}"
        lines.append(styled(text, WARNING))
    bad = [result for result in results if failure_causes(result)]
    last = failed_line([f"{len(bad)} of {_shapes(len(results))}"] if bad else [])
    return [*lines, f"run folder {Path(str(results[0].run_dir)).parent}", *(styled(line, BAD) for line in last)]


def _shapes(count: int) -> str:
    return "1 shape" if count == 1 else f"{count} shapes"


def _table(results: Sequence[RunResult]) -> Table:
    labels = list(_shape(results[0]))
    names = [number for number, label in enumerate(labels) if label not in results[0].params]
    whole = ("whole time",) if _has_whole(results) else ()
    rates = (f"T{operation(results[0])}/s", "of peak", "of memory", "HBM GB/s")
    figures = ("latency", *whole, *rates, "verified", "max error")
    table = new_table(*labels, *figures, left=len(labels), wrapped=names)
    for result in results:
        table.add_row(*map(value_text, _shape(result).values()), *_figures(result, bool(whole)))
    return table


def _has_whole(results: Iterable[RunResult]) -> bool:
    """Whether the time of the kernels is not the whole time: there are several launches, or calls of a host."""
    return any(len(result.launches) > 1 or result.host is not None for result in results)


def _totals(results: Sequence[RunResult]) -> str:
    total_ps = sum(result.latency_ps for result in results)
    flops = sum(result.flops for result in results)
    achieved = f", {rate(flops, total_ps, f'{operation(results[0])}/s')} achieved" if flops and total_ps else ""
    return f"{_shapes(len(results))} on {results[0].topology}: {duration(total_ps)} in all{achieved}"


def _figures(result: RunResult, with_whole: bool) -> Iterable[Any]:
    roof = result.roofline
    of_peak = peak_share(result)
    peak = "-" if of_peak is None else percent(of_peak)
    share = roof.memory_share if isinstance(roof, Roofline) else None
    hbm = result.bytes.get("hbm")
    gbs = f"{(hbm.read + hbm.write) / result.latency_ns:.1f}" if hbm and result.latency_ns else "-"
    verified = verdict_word(result.verified, was_sampled(result.outputs), "-")
    error = "-" if result.max_abs_err is None else f"{result.max_abs_err:.3g}"
    whole = [duration(result.whole_ns * PS_PER_NS)] if with_whole and isinstance(result.whole_ns, float) else []
    memory = "-" if share is None else percent(share)
    tera = f"{result.achieved_flops / 1e12:.3f}" if result.flops else "-"
    verdict = styled(verified, verdict_style(result.verified))
    return duration(result.latency_ps), *whole, tera, peak, memory, gbs, verdict, error


def _where(result: RunResult) -> str:
    return " ".join(f"{name}={value}" for name, value in _shape(result).items())


def _shape(result: RunResult) -> dict[str, object]:
    return result.shape if isinstance(result.shape, dict) else {}
