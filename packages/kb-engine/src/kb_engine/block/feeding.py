"""What a scheduler's feeder waits for, as it tells the report of a simulation that is stuck."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kb_engine.block.in_flight import TileToken
from kb_engine.block.stage_server import StageServer
from kb_messages import StageType


class Feeding(NamedTuple):
    """The tile whose turn it is, and what it waits for since `since_ps`.

    `queue` is the full queue, if that is what it waits for. Otherwise `needs` names what it is not granted; `held_by`
    tells of a tile on its way, and the stages ahead of it, whether it has yet to give that back; `change` is the
    smallest change of a capacity that would grant it (empty if none would).
    """

    token: TileToken
    since_ps: int
    queue: StageServer | None = None
    needs: str = ""
    held_by: Callable[[TileToken, frozenset[StageType]], bool] = lambda *_: False
    change: str = ""
