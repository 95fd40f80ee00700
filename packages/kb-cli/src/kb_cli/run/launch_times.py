"""Times of launches and of the host, as JSON has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from kb_cli.terminal.units import PS_PER_NS

if TYPE_CHECKING:
    from kb_cli.run.timed_host import HostTimes
    from kb_engine import LaunchResult


class LaunchTimes(Struct, frozen=True, kw_only=True):
    """One launch on `pes` PEs: start of the first kernel, end of the last, the host's call and the response.

    All PEs are told one target time to start at. `late_pes` PEs started later, the last of them by `late_ns`.
    """

    start_ns: float
    end_ns: float
    pes: int
    call_ns: float
    response_ns: float
    late_pes: int
    late_ns: float


class HostTime(Struct, frozen=True, kw_only=True):
    """Time of the host's calls: writes and reads of tensors, updates of MMUs, and launches before and after kernels."""

    write_ns: float
    read_ns: float
    map_ns: float
    launch_ns: float
    response_ns: float


def launch_times(each: LaunchResult) -> LaunchTimes:
    """*each* in nanoseconds."""
    return LaunchTimes(
        start_ns=each.start_ps / PS_PER_NS,
        end_ns=each.end_ps / PS_PER_NS,
        pes=len(each.pe_end_ps),
        call_ns=each.call_ps / PS_PER_NS,
        response_ns=each.response_ps / PS_PER_NS,
        late_pes=len(each.late_ps),
        late_ns=max(each.late_ps.values(), default=0) / PS_PER_NS,
    )


def host_time(times: HostTimes | None) -> HostTime | None:
    """*times* in nanoseconds."""
    if times is None:
        return None
    return HostTime(
        write_ns=times.write_ps / PS_PER_NS,
        read_ns=times.read_ps / PS_PER_NS,
        map_ns=times.map_ps / PS_PER_NS,
        launch_ns=times.launch_ps / PS_PER_NS,
        response_ns=times.response_ps / PS_PER_NS,
    )
