"""sweep.json: a whole sweep as a file, which a page reads again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from kb_cli.run.files import write_json
from kb_cli.sweep.sweep import SweepResult
from kb_messages import BenchmarkError, file_in, read_bytes

SWEEP: Final = "sweep.json"
_MOST_NBYTES: Final = 1 << 30
"""Of a file that is read. Source: assumed; a million points have some 700 MB."""


def write_sweep(folder: Path, result: SweepResult) -> None:
    """Write *result* to sweep.json in *folder*, without what is of this command and not of the sweep."""
    plain = msgspec.to_builtins(result)
    for name in ("computed", "known"):
        del plain[name]
    write_json(folder / SWEEP, plain)


def read_sweep(folder: Path) -> SweepResult:
    """The sweep in *folder*; its counts of points computed and known are 0.

    Raises BenchmarkError for a file that is not there, or that is not as `write_sweep` writes it.
    """
    path = file_in(folder, SWEEP, BenchmarkError)
    data = read_bytes(path, BenchmarkError, _MOST_NBYTES)
    try:
        found = msgspec.json.decode(data, type=SweepResult)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BenchmarkError(str(path), f"no sweep ({error})", "a file that kb sweep wrote") from None
    if (wrong := _inconsistency(found)) is not None:
        raise BenchmarkError(str(path), wrong, "a file that kb sweep wrote")
    return found


def _inconsistency(found: SweepResult) -> str | None:
    """What in *found* does not go together: a page would look for something that is not there."""
    within = set(found.axes) - set(found.over)
    if any(not values for values in found.axes.values()):
        return "an axis without values"
    if any(each.values.keys() != found.axes.keys() for each in found.points):
        return "a point of other axes"
    if any(each.values.keys() != within or len(each.costs) != len(found.costs) for each in found.configurations):
        return "a configuration of other axes or costs"
    if any(not 0 <= at < len(found.configurations) for at in found.front):
        return "a Pareto front of configurations that are not there"
    return None
