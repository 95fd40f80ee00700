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


class LaunchSent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="launch_sent"):
    """The launch number `launch`, of a kernel on `n_pes` PEs, left the host at `t_ps`."""

    t_ps: int
    launch: int
    n_pes: int


class KernelStart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="kernel_start"):
    """`pe` began to run the kernel of a launch, `late_ps` after the launch's target."""

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
    """The answer to a launch reached the host; `ok` is False when it says that a target refused."""

    t_ps: int
    launch: int
    ok: bool


LaunchEvent = LaunchSent | KernelStart | KernelEnd | LaunchResponse
TraceEvent = CommandSubmitted | CommandComplete | FabricTransfer | LaunchEvent
