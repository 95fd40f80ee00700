"""What reasons of waits and edges of a path mean, in words. The terminal and the page of `kb web` have these alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REASONS: Final[Mapping[str, str]] = {
    "service": "at work",
    "channel": "block busy",
    "tcm_port": "TCM port busy",
    "register_file": "no room in registers",
    "compute_slot": "compute slot taken",
    "operand": "operand missing",
    "barrier": "barrier",
    "queue_full": "next queue full",
    "memory": "memory serving others",
    "shared_links": "links shared",
    "tile_buffer": "no tile buffer",
    "fetch_order": "fetches before it",
}
"""Words for the reasons of waits, which are columns of tables."""
VIA: Final[Mapping[str, str]] = {
    "data": "its data",
    "transfer_order": "the transfer before it",
    "queue_full": "a full queue",
    "throughput": "the block being busy",
    "register_file": "room in registers",
    "tcm_port": "the TCM port",
    "compute_slot": "the compute slot",
    "tile_buffer": "a tile buffer",
    "fetch_order": "the order of fetches",
    "dispatch": "its dispatch",
    "earlier_commands": "the commands before it",
    "submission_queue": "a full submission queue",
    "submission": "its submission",
    "operand": "its operand",
    "program": "the program",
    "end": "the end",
    "start": "the start",
    "memory": "the memory serving others",
    "launch": "the launch",
    "answer": "the answer",
    "engine_queue": "the queue of the engine",
    "message": "a message",
    "credit": "a credit",
    "signal": "a signal",
    "barrier": "a barrier",
}
"""Words for the edges of a path: what held something up."""


def via_text(name: str) -> str:
    """Returns the words for the edge *name*, and *name* for an edge of another version."""
    return VIA.get(name, name)
