"""What a run with `--exact check` simulated both ways."""

from __future__ import annotations

from kb_cli.run.result_parts import Compared
from kb_engine import Engine


def compared_of(engine: Engine) -> Compared:
    """What of *engine*, which has run with `exact="check"`, was compared with every event."""
    (commands, taken), (programs, skipped) = engine.checked
    return Compared(
        commands=commands,
        known_commands=taken,
        programs=programs,
        skipped_programs=skipped,
    )


def compared_text(found: Compared) -> str:
    """The line that `kb run` prints of *found*. It leaves out what the run had none of."""
    parts = []
    if found.known_commands:
        parts.append(f"{found.commands} of {found.known_commands} commands with a known outcome")
    if found.skipped_programs or found.programs:
        parts.append(f"{found.programs} programs beside {found.skipped_programs} that were skipped")
    if not parts:
        return "note: --exact check compared nothing, because every event was simulated"
    return f"note: --exact check simulated {' and '.join(parts)}, event by event: no difference"
