"""Statistics of the simulation itself: how pass 1 found the times, and what `--exact check` compared.

`--sim-stats` and `--json` show them. A note on standard error names the first reason when many events were simulated.
"""

from __future__ import annotations

from typing import Final

import click
from msgspec.structs import replace

from kb_cli.run.base.result import Compared, SimStats, SlowPathReason
from kb_engine import Engine
from kb_engine.observe import COMMANDS, NO_REMEDY

MANY_EVENTS: Final = 100_000
"""The number of events from which the note is printed. Source: assumed; they take about a second."""
_FAST_PATHS: Final = {COMMANDS: "isolated"}
"""The participle for the fast path of each kind of work. All other kinds are skipped in a steady state."""


def sim_stats(engine: Engine, is_noted: bool) -> SimStats:
    """Returns the statistics of all launches of *engine*. With *is_noted*, prints a note when there are many events."""
    found = _stats_of(engine)
    note = events_note(found) if is_noted else ""
    if note:
        click.echo(note, err=True)
    return found


def added(one: SimStats, other: SimStats) -> SimStats:
    """Returns the sum of two statistics. Reasons that are equal in all but their counts are added up."""
    found: dict[tuple[str, ...], SlowPathReason] = {}
    for each in (*one.slow_path, *other.slow_path):
        key = each.what, each.kernel, each.line, each.cause, each.change
        known = found.get(key)
        found[key] = replace(each, commands=each.commands + (0 if known is None else known.commands))
    numbers = {
        name: getattr(one, name) + getattr(other, name) for name in SimStats.__struct_fields__ if name != "slow_path"
    }
    return SimStats(**numbers, slow_path=sorted(found.values(), key=lambda each: -each.commands))


def _stats_of(engine: Engine) -> SimStats:
    work = engine.work
    return SimStats(
        launches=work.launches,
        commands=work.commands,
        isolated_commands=work.isolated_commands,
        skipped_commands=work.skipped_commands,
        skipped_programs=work.skipped_programs,
        skipped_tiles=work.skipped_tiles,
        event_commands=work.event_commands,
        events=work.events,
        slow_path=[
            SlowPathReason(
                what=each.what,
                kernel=each.kernel,
                line=each.why.line,
                cause=each.why.cause,
                change=each.why.change,
                commands=each.commands,
            )
            for each in work.slow_path
        ],
    )


def events_note(found: SimStats) -> str:
    """Returns the note for a run with many events of which some could have been avoided; "" for any other run."""
    avoidable = [each for each in found.slow_path if each.change != NO_REMEDY]
    if found.events < MANY_EVENTS or not avoidable:
        return ""
    others = len(found.slow_path) - 1
    more = f"; --sim-stats lists {others} more reason{'s' if others > 1 else ''}" if others else ""
    events = f"{found.events:,} events were simulated, and {MANY_EVENTS:,} or more are noted"
    return f"note: {events}: {_reason_text(avoidable[0])}{more}"


def _reason_text(reason: SlowPathReason) -> str:
    kernel = f" in {reason.kernel}" if reason.kernel else ""
    line = f" ({reason.line})" if reason.line else ""
    change = f": {reason.change}" if reason.change else ""
    fast = _FAST_PATHS.get(reason.what, "skipped in a steady state")
    return f"{reason.what}{kernel} took the slow path and were not {fast}, because {reason.cause}{line}{change}"


def compared_of(engine: Engine) -> Compared:
    """Returns the number of launches of *engine* that `exact="check"` simulated once more, event by event."""
    return Compared(launches=engine.n_checked)


def compared_text(found: Compared) -> str:
    """Returns the line that `kb run --exact check` prints."""
    many = "1 launch" if found.launches == 1 else f"{found.launches} launches"
    return f"note: --exact check simulated {many} once more, event by event: no difference"
