"""What a report of a stuck simulation says about programs of a grid that no PE has taken."""

from __future__ import annotations

from collections.abc import Iterable

from kb_engine.launch.launch import Launch


def queued_note(launches: Iterable[Launch]) -> str:
    """A sentence for the programs of *launches* that wait for a PE, up to "; "; "" if there are none."""
    waiting = [launch for launch in launches if launch.queued]
    if not waiting:
        return ""
    queued, pes = sum(launch.queued for launch in waiting), sum(len(launch.pe_ids) for launch in waiting)
    return (
        f"{queued} programs have not begun, because a program waits for a PE that is free: programs that wait for each "
        f"other, as at a barrier over the grid, need a PE each, and the launch has {pes}; "
    )
