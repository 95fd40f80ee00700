"""Trace events: what happened when, besides the op records (`oplog`)."""

from __future__ import annotations

from msgspec import Struct


class CommandSubmitted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="command_submitted"):
    """A command entered a PE's submission queue at `t_ps`."""

    t_ps: int
    command_seq: int
    pe: str
    line: str
    name: str


class CommandComplete(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="command_complete"):
    """A command's last tile completed at `t_ps` and its record entered the completion queue."""

    t_ps: int
    command_seq: int
    pe: str


class FabricTransfer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fabric_transfer"):
    """Bytes that crossed the fabric: from `src` to `dst` node, request sent at `t_start_ps`, done at `t_end_ps`."""

    t_start_ps: int
    t_end_ps: int
    src: str
    dst: str
    nbytes: int


TraceEvent = CommandSubmitted | CommandComplete | FabricTransfer
