"""What a run with `--exact check` simulated both ways."""

from __future__ import annotations

from kb_engine import Engine


def what_was_compared(engine: Engine) -> str:
    """The line that says which commands and programs of *engine*, which has run, were compared with every event."""
    (commands, n_taken), (programs, n_skipped) = engine.checked
    if not (n_taken or n_skipped):
        return "note: --exact check compared nothing, because every event was simulated"
    return (
        f"note: --exact check simulated {commands} of {n_taken} commands with a known outcome, and {programs} programs "
        f"beside {n_skipped} that were skipped, event by event: no difference"
    )
