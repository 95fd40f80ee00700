"""How a run was simulated, and the note on a run of which much was simulated event by event."""

from __future__ import annotations

from typing import Final

import click
from msgspec.structs import replace

from kb_cli.run.base.result import Compared, EventReason, HowSimulated
from kb_engine import Engine
from kb_engine.observe import COMMANDS, LAUNCHES

MANY_EVENTS: Final = 100_000
"""Events from which on the note is printed. Source: assumed; they take about a second."""
_SKIPPED: Final = {COMMANDS: "closed", LAUNCHES: "repeated"}


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
        added = (0, 0) if known is None else (known.commands, known.launches)
        found[key] = replace(each, commands=each.commands + added[0], launches=each.launches + added[1])
    numbers = {
        name: getattr(one, name) + getattr(other, name) for name in HowSimulated.__struct_fields__ if name != "by_event"
    }
    return HowSimulated(**numbers, by_event=sorted(found.values(), key=lambda each: -each.commands))


def _work_of(engine: Engine) -> HowSimulated:
    work = engine.work
    return HowSimulated(
        launches=work.launches,
        repeated_launches=work.repeated_launches,
        foreseen_launches=work.foreseen_launches,
        commands=work.commands,
        closed_commands=work.closed_commands,
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
                launches=each.launches,
            )
            for each in work.by_event
        ],
    )


def events_note(found: HowSimulated) -> str:
    """The line that `kb run` prints of a run with many events of which some could have been skipped; "" for others."""
    if found.events < MANY_EVENTS or not found.by_event:
        return ""
    others = len(found.by_event) - 1
    more = f"; --sim-stats lists {others} more reason{'s' if others > 1 else ''}" if others else ""
    events = f"{found.events:,} events were simulated, and {MANY_EVENTS:,} or more are noted"
    return f"note: {events}: {_reason_text(found.by_event[0])}{more}"


def _reason_text(reason: EventReason) -> str:
    kernel = f" in {reason.kernel}" if reason.kernel else ""
    line = f" ({reason.line})" if reason.line else ""
    change = f": {reason.change}" if reason.change else ""
    skipped = _SKIPPED.get(reason.what, "folded")
    return f"{reason.what}{kernel} were not {skipped}, because {reason.cause}{line}{change}"


def compared_of(engine: Engine) -> Compared:
    """What of *engine*, which has run with `exact="check"`, was compared with every event."""
    (commands, taken), (programs, skipped), (launches, repeated) = engine.checked
    return Compared(
        commands=commands,
        known_commands=taken,
        programs=programs,
        skipped_programs=skipped,
        launches=launches,
        repeated_launches=repeated,
    )


def compared_text(found: Compared) -> str:
    """The line that `kb run` prints of *found*. It leaves out what the run had none of."""
    parts = []
    if found.known_commands:
        parts.append(f"{found.commands} of {found.known_commands} commands with a known outcome")
    if found.skipped_programs or found.programs:
        parts.append(f"{found.programs} programs beside {found.skipped_programs} that were skipped")
    if found.repeated_launches or found.launches:
        parts.append(f"{found.launches} launches beside {found.repeated_launches} that were repeated")
    if not parts:
        return "note: --exact check compared nothing, because every event was simulated"
    return f"note: --exact check simulated {' and '.join(parts)}, event by event: no difference"
