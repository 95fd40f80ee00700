"""Tables of `kb runs`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kb_cli.report.elements.verdicts import verdict_style, verdict_word
from kb_cli.run.base.fidelity_band import Fidelity
from kb_cli.run.folders.run_list import ListedRun, Pruned, telling_params
from kb_cli.terminal.output import new_table, styled
from kb_cli.terminal.units import duration, quantity


def runs_tables(runs: Sequence[ListedRun]) -> list[Any]:
    """Returns a row for each run, with the parameters that differ among runs of its benchmark, and the sum of their
    sizes.
    """
    if not runs:
        return ["no run folders"]
    table = new_table(
        "run folder",
        "topology",
        "parameters",
        "latency",
        "fidelity",
        "runs",
        "verified",
        "size",
        "written (UTC)",
        left=3,
        wrapped=(0, 2),
    )
    for run, params in zip(runs, telling_params((run.benchmark, run.params) for run in runs), strict=True):
        latency = run.state if run.latency_ps is None else duration(run.latency_ps)
        verdict = styled(verdict_word(run.verified, run.by_sample, "-"), verdict_style(run.verified))
        when = run.when[:19].replace("T", " ")
        size = quantity(run.nbytes, "B")
        table.add_row(
            run.folder,
            run.topology or "-",
            params or "-",
            latency,
            _fidelity(run.fidelity),
            str(run.runs),
            verdict,
            size,
            when,
        )
    return [table, "", f"{_count(len(runs))}, {quantity(sum(run.nbytes for run in runs), 'B')}"]


def _fidelity(fidelity: Fidelity | None) -> str:
    """Returns the factor by which the time may be off, or that no comparison validates the run."""
    if fidelity is None:
        return "-"
    has_band = fidelity.band_ns is not None and fidelity.p90 is not None
    return f"x {math.exp(fidelity.p90 or 0.0):.2f} ({fidelity.kernel})" if has_band else "not validated"


def pruned_lines(pruned: Pruned) -> list[str]:
    """Returns a line for each folder that was deleted or stayed, and the sum."""
    would = "would remove" if pruned.dry_run else "removed"
    lines = [f"{would} {run.folder} ({quantity(run.nbytes, 'B')})" for run in pruned.removed]
    lines += [f"{would} {folder}, which a killed run left" for folder in pruned.killed]
    number = len(pruned.removed) + len(pruned.killed)
    return [*lines, *pruned.skipped, f"{would} {_count(number)}, {quantity(pruned.nbytes, 'B')}"]


def _count(number: int) -> str:
    return "1 run folder" if number == 1 else f"{number} run folders"
