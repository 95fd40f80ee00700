"""The frame of a latency in words, as it stands beside each latency that is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb_cli.run.base.frame import AND, Frame
from kb_cli.run.base.result import HostTime, RunResult
from kb_cli.terminal.units import PS_PER_NS, duration, listed, quantity
from kb_topology import slow_text


def pes_text(frame: Frame) -> str:
    """Returns how many PEs ran a program: `8 of 128 PEs`."""
    return f"{frame.pes_used} of {frame.pes} {'PE' if frame.pes == 1 else 'PEs'}"


def frame_text(result: RunResult) -> str:
    """Returns the frame of *result*: PEs, issue, copies, what is left out; "" for a folder of an older version."""
    frame = result.frame
    return "; ".join([pes_text(frame), conditions([result])]) if isinstance(frame, Frame) else ""


def conditions(results: Sequence[RunResult]) -> str:
    """Returns the frame that *results* have together, without their PEs; "" for folders of an older version."""
    frames = [each.frame for each in results if isinstance(each.frame, Frame)]
    issues = sorted({issue for frame in frames for issue in frame.issue.split(AND)})
    if not issues:
        return ""
    slow = {pe_id: factor for frame in frames for pe_id, factor in (frame.slow or {}).items()}
    counts = {name: count for frame in frames for name, count in frame.replicas.items()}
    clauses = [f"slow PEs: {slow_text(slow)}"] if slow else []
    clauses.append(f"{AND.join(issues)} issue")
    if counts:
        copies = ", ".join(f"{name} {count} times" for name, count in counts.items())
        nbytes = sum(frame.replica_nbytes for frame in frames)
        clauses.append(f"placed {copies} ({quantity(nbytes, 'B')} of copies)")
    return "; ".join([*clauses, _left_out(results)])


def _left_out(results: Sequence[RunResult]) -> str:
    """Returns the times that the latencies of *results* leave out."""
    hosts = [each.host for each in results if each.host is not None]
    if hosts:
        return f"without the host's {listed(list(_of_hosts(hosts)))}"
    startup_ns = sum(each.startup_ns for each in results if isinstance(each.startup_ns, float))
    startup = f"without start-up ({_ns(startup_ns)}); " if startup_ns else ""
    return f"{startup}no host on this chip, so uploads take no time"


def _of_hosts(hosts: Sequence[HostTime]) -> Iterator[str]:
    before, after = (sum(each.launch_ns for each in hosts), sum(each.response_ns for each in hosts))
    yield f"launch ({_ns(before)} before the kernels, {_ns(after)} after)" if before or after else "launches of streams"
    uploads = sum(each.write_ns for each in hosts)
    yield f"uploads ({_ns(uploads) if uploads else 'none charged'})"
    reads, maps = sum(each.read_ns for each in hosts), sum(each.map_ns for each in hosts)
    for what, ns in (("reads", reads), ("page maps", maps)):
        if ns:
            yield f"{what} ({_ns(ns)})"


def _ns(ns: float) -> str:
    return duration(ns * PS_PER_NS)
