"""The cells of tables of programs that talk: their waits for other PEs, and the channels of their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec import UnsetType

from kb_cli.terminal.units import duration, quantity
from kb_dataexec.analysis import Channels, SyncWaits

Cells: TypeAlias = list[tuple[str, ...]]
_ROWS: Final = 12

WAIT_HEADERS: Final = "waits for other PEs", "for a", "times", "waited", "longest", "of", "for"
"""The headers of the table of waits. The times of all PEs are added up."""
CHANNEL_HEADERS: Final = (
    "channel", "tag", "alike", "messages", "bytes", "mean way", "longest way", "slots", "slots busy",
)  # fmt: skip
"""The headers of the table of channels. Times go from the credit to the doorbell; numbers are those of one channel."""


def wait_cells(waits: Sequence[SyncWaits] | UnsetType) -> Cells:
    """Returns a row under WAIT_HEADERS for each line and reason."""
    return [
        (
            each.line,
            each.reason,
            f"{each.count:,}",
            duration(each.waited_ps),
            *((duration(each.longest_ps), each.pe, each.other) if each.longest_ps else ("-", "-", "-")),
        )
        for each in (() if isinstance(waits, UnsetType) else waits)
    ]


def channel_cells(channels: Sequence[Channels] | UnsetType) -> Cells:
    """Returns a row under CHANNEL_HEADERS for each kind of channel."""
    return [
        (
            f"{each.src} -> {each.dst}",
            each.tag.removeprefix("tag "),
            f"{each.channels:,}",
            f"{each.messages:,}",
            quantity(each.nbytes, "B"),
            duration(each.mean_ps),
            duration(each.longest_ps),
            f"{each.slots:,}",
            f"{each.busy_slots:.2f}",
        )
        for each in (() if isinstance(channels, UnsetType) else channels)
    ]


def first_rows(cells: Cells) -> tuple[Cells, int]:
    """Returns the rows of *cells* that are shown, and the number of the others."""
    return cells[:_ROWS], max(len(cells) - _ROWS, 0)
