"""The trace of a run: its PEs, each with its critical path and its servers, then memories, links and launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kb_cli.run.records.run_json import RunJson
from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.arrange import arrange, pe_order
from kb_cli.trace.critical_path import PathSegments, path_slices
from kb_cli.trace.run_log import RunLog
from kb_cli.trace.slices import (
    Rows,
    launch_slices,
    op_slices,
    pe_of,
    talk_slices,
    whole_flows,
    with_flows,
)
from kb_cli.trace.stream_slices import stream_slices
from kb_cli.trace.trace_file import Unit
from kb_cli.trace.tracks import Counters, Slices, Trace
from kb_cli.trace.window import Window
from kb_messages import KbError
from kb_topology import did_you_mean


class Shown(NamedTuple):
    """The part of a run that a trace shows: a window, of one PE or of all, in units of time."""

    window: Window
    pe: str | None
    unit: Unit


def run_trace(
    found: RunLog,
    shown: Shown,
    path: Callable[[], PathSegments] | None = None,
    memories: Slices | None = None,
    counters: Sequence[Counters] = (),
) -> Trace:
    """Returns the trace of a run. A PE with segments of the path has a track for them, above all others, and a kernel
    that talks to other PEs has its waits and its messages below. A flow leads from each send to its message. Streams of
    the host have tracks of their own, and a launch that waited for a PE has its wait there.

    *path* returns the segments, or waits for them; it is called when the services are arranged. *memories* has the
    services of memories, and is cut to the window. *counters* are shown unchanged. Raises KbError for a PE without
    records, and for a window in which nothing happens.
    """
    strings = found.log.strings
    ops = found.log.ops if shown.pe is None else _of_pe(found.log.ops, strings, shown.pe)
    services = with_flows(op_slices(ops, strings, str(found.folder)), found.log.tables.get("sends"))
    of_streams = stream_slices(found.log)
    of_kernels = [_of_one(each, shown.pe) for each in (*talk_slices(found.log), of_streams) if each is not None]
    results = found.run.results
    tables = [*of_kernels, services, launch_slices(results.launches, results.workload_ops or ())]
    if path is not None:
        tables.insert(0, _of_one(path_slices(path()), shown.pe))
    of_pes = tables[:-1]
    tables = whole_flows([shown.window.cut(table) for table in tables])
    if not any(len(table.track) for table in tables[:-1]):
        raise _nothing(shown.window, of_pes)
    if memories is not None:
        tables.append(shown.window.cut(memories))
    return arrange(_name(found.run, shown.unit), tables, counters)


def _of_pe(ops: Rows, strings: list[str], pe: str) -> Rows:
    components = np.unique(ops["component"]).tolist()
    mine = [each for each in components if pe_of(strings[each]) == pe]
    if not mine:
        pes = sorted({pe_of(strings[each]) for each in components} - {""}, key=pe_order)
        fix = did_you_mean(pe, pes) or (f"the first one is {pes[0]}" if pes else "it has none")
        raise KbError("--pe", repr(pe), "the id of a PE that has records in the log", fix)
    return ops[np.isin(ops["component"], mine)]


def _of_one(slices: Slices, pe: str | None) -> Slices:
    """Returns the slices of *pe*, or all without one."""
    return (
        slices
        if pe is None
        else slices.where(np.array([each.group == pe for each in slices.places], np.bool_)[slices.track])
    )


def _nothing(window: Window, tables: Sequence[Slices]) -> KbError:
    tables = [table for table in tables if len(table.track)]
    start = min(table.start_ps.min() for table in tables) / PS_PER_NS
    end = max(table.end_ps.max() for table in tables) / PS_PER_NS
    return KbError(
        "--from, --to", f"{window}, in which nothing happens", f"a window that meets the time from {start} to {end} ns"
    )


def _name(run: RunJson, unit: Unit) -> str:
    scale = ", 1 ns shown is 1 ps" if unit is Unit.PS else ""
    return f"kernbench {run.benchmark.name} on {run.topology.name}{scale}"
