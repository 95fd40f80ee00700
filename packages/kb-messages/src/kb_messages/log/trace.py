"""Trace events, from the submission of a command to its completion.

README.md explains the events and their order, and how waits add up to the life of a tile.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class DispatchWait(StrEnum):
    """The waits of a tile from the submission of its command to its dispatch, in the order in which they occur.

    After a stage, a tile waits for earlier transfers of its channel to leave first (`transfer_order`), and then for
    room in the next queue (`queue_full`).
    """

    SUBMISSION_QUEUE = "submission_queue"
    DECODE = "decode"
    EARLIER_COMMANDS = "earlier_commands"
    EARLIER_TILES = "earlier_tiles"
    FETCH_ORDER = "fetch_order"
    TILE_BUFFER = "tile_buffer"
    QUEUE_FULL = "queue_full"
    SCHEDULER = "scheduler"
    TRANSFER_ORDER = "transfer_order"


ENGINE_QUEUE: Final = "engine_queue"
"""The wait of a command for room in the queue of its engine, and for the commands before it there."""


class CommandSubmitted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="command_submitted"):
    """A command entered the submission queue of `component`, a PE's scheduler, at `t_ps`.

    `waits_ps` has the wait in the queue of its engine for commands before it (`engine_queue`), for operands (`operand`)
    and then for room in the submission queue (`queue_full`). The ops of the `n_tiles` tiles have the `n_ops` ids from
    `first_op_id` on.
    """

    t_ps: int
    command_seq: int
    pe: str
    component: str
    line: str
    name: str
    n_tiles: int
    first_op_id: int
    n_ops: int
    waits_ps: dict[str, int]


class SubCommandDispatched(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sub_command_dispatched"):
    """The feeder put a tile into the queue of `component`, the block of its first stage `stage`.

    `waits_ps`, by DispatchWait, adds up to the time since the submission of the command.
    """

    t_ps: int
    op_id: int
    command_seq: int
    tile_id: int
    component: str
    stage: str
    waits_ps: dict[str, int]


class TileReady(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="tile_ready"):
    """A tile entered the queue of `component` for its stage `stage_index`: the stage before ended, and there was room.

    `waits_ps` (`queue_full`) is the time since the end of the stage before.
    """

    t_ps: int
    op_id: int
    command_seq: int
    tile_id: int
    stage_index: int
    component: str
    stage: str
    waits_ps: dict[str, int]


class EngineStart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="engine_start"):
    """`component` began to serve a tile and holds all that the stage needs.

    `waits_ps`, by the names of `oplog.WaitReason` in lower case, adds up to the time since the tile was ready.
    """

    t_ps: int
    op_id: int
    command_seq: int
    tile_id: int
    stage_index: int
    component: str
    stage: str
    waits_ps: dict[str, int]


class EngineComplete(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="engine_complete"):
    """`component` ended its service of a tile. With `completes_tile`, that was the last service of the tile."""

    t_ps: int
    op_id: int
    command_seq: int
    tile_id: int
    stage_index: int
    component: str
    stage: str
    completes_tile: bool


class CommandComplete(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="command_complete"):
    """All `n_tiles` tiles of a command are complete, and its record is in the completion queue of `component`."""

    t_ps: int
    command_seq: int
    pe: str
    component: str
    line: str
    n_tiles: int


class FabricTransfer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fabric_transfer"):
    """Bytes that crossed the fabric from node `src` to node `dst`: request sent at `t_start_ps`, done at `t_end_ps`.

    `t_end_ps` decides the place of the event in the order of events.
    """

    t_start_ps: int
    t_end_ps: int
    src: str
    dst: str
    nbytes: int


class LaunchSent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="launch_sent"):
    """The launch number `launch`, of a kernel on `n_pes` PEs, left the host at `t_ps`."""

    t_ps: int
    launch: int
    n_pes: int


class KernelStart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="kernel_start"):
    """`pe` began to run the kernel of a launch, `late_ps` after the target of the launch."""

    t_ps: int
    launch: int
    pe: str
    late_ps: int = 0


class KernelEnd(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="kernel_end"):
    """The kernel returned on `pe`, and all its commands are done."""

    t_ps: int
    launch: int
    pe: str


class LaunchResponse(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="launch_response"):
    """The answer to a launch reached the host. `ok` is False when a target refused."""

    t_ps: int
    launch: int
    ok: bool


LaunchEvent = LaunchSent | KernelStart | KernelEnd | LaunchResponse
StageEvent = TileReady | EngineStart | EngineComplete
TraceEvent = CommandSubmitted | SubCommandDispatched | StageEvent | CommandComplete | FabricTransfer | LaunchEvent
