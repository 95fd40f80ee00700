"""How a run was simulated, and the note on a run of which much was simulated event by event."""

from __future__ import annotations

from typing import Final

import click
from msgspec.structs import replace

from kb_cli.run.result_parts import EventReason, HowSimulated
from kb_engine import Engine
from kb_engine.observe import COMMANDS

MANY_EVENTS: Final = 100_000
"""Events from which on the note is printed. Source: assumed; they take about a second."""
_SKIPPED: Final = {COMMANDS: "closed"}


def how_simulated(engine: Engine, is_noted: bool) -> HowSimulated:
    """How the launches of *engine* were simulated. With *is_noted*, many events are noted on standard error."""
    found = _work_of(engine)
    note = events_note(found) if is_noted else ""
    if note:
        click.echo(note, err=True)
    return found


def both(one: HowSimulated, other: HowSimulated) -> HowSimulated:
    """How the launches of *one* and *other* were simulated. Equal reasons are added up."""
    found: dict[tuple[str, ...], EventReason] = {}
    for each in (*one.by_event, *other.by_event):
        key = each.what, each.kernel, each.line, each.cause, each.change
        known = found.get(key)
        found[key] = replace(each, commands=each.commands + (0 if known is None else known.commands))
    numbers = {
        name: getattr(one, name) + getattr(other, name) for name in HowSimulated.__struct_fields__ if name != "by_event"
    }
    return HowSimulated(**numbers, by_event=sorted(found.values(), key=lambda each: -each.commands))


def _work_of(engine: Engine) -> HowSimulated:
    work = engine.work
    return HowSimulated(
        launches=work.launches,
        commands=work.commands,
        closed_commands=work.isolated_commands,
        skipped_commands=work.skipped_commands,
        skipped_programs=work.skipped_programs,
        skipped_tiles=work.skipped_tiles,
        event_commands=work.event_commands,
        events=work.events,
        by_event=[
            EventReason(
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


def events_note(found: HowSimulated) -> str:
    """The line that `kb run` prints of a run with many events of which some could have been skipped; "" for others."""
    if found.events < MANY_EVENTS or not found.by_event:
        return ""
    others = len(found.by_event) - 1
    more = f"; --work lists {others} more reason{'s' if others > 1 else ''}" if others else ""
    events = f"{found.events:,} events were simulated, and {MANY_EVENTS:,} or more are noted"
    return f"note: {events}: {_reason_text(found.by_event[0])}{more}"


def _reason_text(reason: EventReason) -> str:
    kernel = f" in {reason.kernel}" if reason.kernel else ""
    line = f" ({reason.line})" if reason.line else ""
    change = f": {reason.change}" if reason.change else ""
    skipped = _SKIPPED.get(reason.what, "folded")
    return f"{reason.what}{kernel} were not {skipped}, because {reason.cause}{line}{change}"
