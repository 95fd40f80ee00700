"""Tables of `kb exec`: a row for each launch, and the trials of autotuners."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from kb_cli.report.elements.shared_tables import REMEDY_HEADERS, remedy_cells
from kb_cli.report.elements.verdicts import failed_line, failure_causes, verdict_style
from kb_cli.run.base.frame import Frame
from kb_cli.run.base.frame_text import conditions
from kb_cli.run.base.remedy import Remedy
from kb_cli.run.base.result import RunResult, Sanitized
from kb_cli.script.script_run import ScriptResult, TunedKernel
from kb_cli.terminal.output import BAD, WARNING, new_table, styled
from kb_cli.terminal.units import duration, percent
from kb_dataexec.analysis import RaceReport

_MOST_ROWS = 40
"""The most launches in the table; the run folder has all."""


def script_tables(result: ScriptResult) -> list[Any]:
    """Returns the launches, the tried configurations, the findings of the sanitizer, and the run folder.

    The last line says what failed, if anything did.
    """
    lines: list[Any] = []
    if result.launches:
        lines += [_launches(result), ""]
    for each in result.tunings:
        lines += [*_tuning(each), ""]
    lines += [part for table in _remedies(result.launches) for part in (table, "")]
    lines += _sanitizer(result.launches)
    lines.append(f"{_launches_text(len(result.launches))} on {result.topology}: {duration(result.latency_ps)} in all")
    if text := conditions(result.launches):
        lines.append(f"frame: {text}")
    if len(result.launches) > _MOST_ROWS:
        lines.append(f"the first {_MOST_ROWS} are shown")
    if result.run_dir is not UNSET:
        missing = [each for each in result.launches if each.keep.missing]
        none = f" ({_launches_text(len(missing))}: {missing[0].keep.missing})" if missing else ""
        lines.append(styled(f"run folder {result.run_dir}{none}", WARNING if none else ""))
    return [*lines, *(styled(line, BAD) for line in failed_line(_causes(result)))]


def _causes(result: ScriptResult) -> list[str]:
    """Returns what failed: the script by its exit code, and launches with races or findings."""
    causes = [f"the script ended with exit code {result.exit_code}"] if result.exit_code else []
    failed = sum(bool(failure_causes(each)) for each in result.launches)
    if failed:
        causes.append(f"{failed} of {_launches_text(len(result.launches))} {_findings(result.launches)}")
    return causes


def _findings(launches: Sequence[RunResult]) -> str:
    """Returns whether *launches* were searched by the sanitizer or for races alone."""
    by_sanitizer = any(isinstance(each.sanitizer, Sanitized) for each in launches)
    return "with findings of the sanitizer" if by_sanitizer else "with races"


def _sanitizer(launches: Sequence[RunResult]) -> list[Any]:
    """Returns a sentence for each finding, and their number, and a sentence for each thing that is not known.

    What several launches of a kernel share is printed once. Launches that were searched for races alone say nothing
    when there is none.
    """
    texts: dict[Hashable, list[str]] = {}
    for number, each in enumerate(launches):
        for alike, text in _found(each):
            texts.setdefault((each.benchmark, alike), []).append(f"launch {number:04d}: {text}")
    lines: list[Any] = []
    for first, *others in texts.values():
        more = f"; the same in {_launches_text(len(others))} more" if others else ""
        lines += [f"{first}{more}", ""]
    searched = [each.sanitizer for each in launches if isinstance(each.sanitizer, Sanitized)]
    races = sum(len(each.races.races) for each in launches if isinstance(each.races, RaceReport))
    if searched:
        count = sum(len(each.texts) for each in searched)
        text = f"FAILED, {count} found" if count else "clean"
        lines.append(styled(f"sanitizer: {text}", verdict_style(not count)))
    if races:
        lines.append(styled(f"races: FAILED, {races} found", verdict_style(False)))
    return lines


def _found(launch: RunResult) -> Iterator[tuple[Hashable, str]]:
    """Yields each finding as a key, which is equal for the same finding of two launches, and a sentence."""
    sanitized, races = launch.sanitizer, launch.races
    findings = [*(sanitized.findings if isinstance(sanitized, Sanitized) else ())]
    findings += races.races if isinstance(races, RaceReport) else []
    for each in findings:
        yield (each.hazard, each.first.line, each.second.line), str(each)
    if isinstance(sanitized, Sanitized):
        for leak in sanitized.leaks or ():
            yield ("leak", leak.line), str(leak)
        for wrap in sanitized.wraps or ():
            yield ("wrap", wrap.line, wrap.wrapped_at), str(wrap)
    for searched in (sanitized, races):
        for note in () if isinstance(searched, UnsetType) else searched.notes or ():
            yield ("note", note), note


def _remedies(launches: Sequence[RunResult]) -> Iterator[Any]:
    """Yields a table of the flaws of kernels, the most time to gain first. Each flaw of a kernel has one row, of the
    launch that has the most to gain.
    """
    worst: dict[tuple[str, str], tuple[float, int, Remedy]] = {}
    for number, each in enumerate(launches):
        for remedy in each.remedies or ():
            found = remedy.gain * each.latency_ps, -number, remedy
            key = each.benchmark, remedy.rule
            worst[key] = max(worst.get(key, found), found, key=lambda one: one[:2])
    if worst:
        headers = "launch", *REMEDY_HEADERS
        table = new_table(*headers, left=2, text=headers[3:], wrapped=(1, 3))
        for _, number, remedy in sorted(worst.values(), key=lambda one: (-one[0], -one[1]))[:_MOST_ROWS]:
            table.add_row(f"{-number:04d}", *remedy_cells(remedy))
        yield table


def _launches_text(count: int) -> str:
    return "1 launch" if count == 1 else f"{count} launches"


def _launches(result: ScriptResult) -> Any:
    table = new_table(
        "launch", "kernel", "grid", "arguments", "PEs", "latency", "busiest", "bound by", left=4, wrapped=(3, 7)
    )
    for number, each in enumerate(result.launches[:_MOST_ROWS]):
        shape: dict[str, Any] = each.shape if isinstance(each.shape, dict) else {}
        arguments = ", ".join(f"{name}={value}" for name, value in each.params.items())
        table.add_row(
            f"{number:04d}",
            str(shape.get("kernel", "")),
            str(shape.get("grid", "")),
            arguments,
            _pes(each),
            duration(each.latency_ps),
            _busiest(each),
            _bound(each),
        )
    return table


def _pes(result: RunResult) -> str:
    """Returns how many PEs ran a program of how many: `25 of 128`."""
    frame = result.frame
    return f"{frame.pes_used} of {frame.pes}" if isinstance(frame, Frame) else "-"


def _busiest(result: RunResult) -> str:
    """Returns the kind of block with the largest share of its peak, the time in which all blocks of the kind work."""
    kinds = {kind: use for kind, use in result.utilization.items() if not kind.startswith(("pe_dma", "pe_cpu"))}
    if not kinds:
        return "-"
    top = max(kinds, key=lambda kind: kinds[kind])
    return f"{top} {percent(kinds[top])}"


def _bound(result: RunResult) -> str:
    """Returns the largest share of the critical path."""
    if result.where is UNSET or not result.where:
        return "-"
    first = result.where[0]
    return f"{first.block} {first.what} {percent(first.share)}"


def _tuning(tuned: TunedKernel) -> Iterator[Any]:
    key = ", ".join(f"{name}={value}" for name, value in tuned.key.items())
    yield f"autotune of {tuned.kernel}{f' for {key}' if key else ''}:"
    table = new_table("configuration", "simulated", "", left=1, wrapped=(0, 2))
    own = [each for each in tuned.tried if not each.same_as]
    for each in own:
        took = "-" if each.latency_ps is None else duration(each.latency_ps)
        table.add_row(each.config, took, "best" if each.config == tuned.best else each.why_not)
    yield table
    if len(own) < len(tuned.tried):
        counts = f"{len(tuned.tried)} configurations are {len(own) if len(own) > 1 else 'one'}"
        change = "change" if len(tuned.idle) > 1 else "changes"
        why = f"{' and '.join(tuned.idle)} {change} nothing here" if tuned.idle else "some launches are equal"
        yield f"{why}: {counts}, and each was simulated once"
