"""A run that the user interrupts, or that is stuck: what it has written so far stays, under a name of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kb_cli.run.files import LOG
from kb_cli.run.folder import NewRunFolder
from kb_messages import SimulationStuckError

_CHUNKS: Final = ("ops-*.npy", "formulas-*.z")
"""The files that say that a log has records."""


@contextmanager
def kept_on_interrupt(folder: NewRunFolder) -> Iterator[None]:
    """Give *folder* the name of an interrupted run when a KeyboardInterrupt passes, and note the name on the error.

    A SimulationStuckError does the same, so that somebody can look at what led there. Only a folder with records of a
    log is kept, because without them there is nothing to read. SIGTERM raises a class of its own and leaves nothing.
    """
    try:
        yield
    except (KeyboardInterrupt, SimulationStuckError) as error:
        chunks = (found for log in (LOG, f"*/{LOG}") for each in _CHUNKS for found in folder.path.glob(f"{log}/{each}"))
        has_records = any(chunks)
        if type(error) in (KeyboardInterrupt, SimulationStuckError) and has_records:
            error.add_note(f"what it wrote so far is in {folder.commit_interrupted()}")
        raise
