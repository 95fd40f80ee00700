"""What `kb run` and `kb report` print of the tiles that the chip chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UnsetType
from rich.table import Table

from kb_cli.run.result_parts import ChosenTile
from kb_cli.terminal.output import new_table

_SHOWN: Final = 8


def chosen_tile_tables(chosen: Sequence[ChosenTile] | UnsetType) -> list[Table]:
    """A table with a row for each kernel line and tile; none if every GEMM states its tile."""
    if isinstance(chosen, UnsetType):
        return []
    table = new_table("tile left to the chip", "chosen", "GEMMs", left=1)
    for each in chosen[:_SHOWN]:
        table.add_row(each.line, each.tile, f"{each.commands:,}")
    if len(chosen) > _SHOWN:
        table.add_row(f"{len(chosen) - _SHOWN} more: see --json", "", "")
    return [table]
