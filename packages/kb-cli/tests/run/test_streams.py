"""Runs with streams: the table by stream, the latency of launches that overlap, and tracks of traces and pages."""

import re
from pathlib import Path

import numpy as np
import pytest

from kb_cli.benchmark import bundled
from kb_cli.report.elements.stream_tables import stream_tables
from kb_cli.run.base.result import LaunchTimes
from kb_cli.run.observe.kernel_time import kernel_ps
from kb_cli.run.saving.outcome_result import launch_times
from kb_cli.trace.slices import launch_slices
from kb_cli.trace.stream_slices import stream_slices
from kb_cli.trace.tracks import Slices
from kb_cli.web.run_timeline import RunTimeline
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, LaunchResult, TensorRef
from kb_topology import Topology, load_topology


def loads(tl: Language, x: TensorRef, n: int) -> None:
    for _ in range(n):
        tl.load(x)


def times(start: float, end: float, **more: int) -> LaunchTimes:
    host = {"call_ns": start - 1, "response_ns": end + 1}
    return LaunchTimes(start_ns=start, end_ns=end, pes=1, late_pes=0, late_ns=0, **host, **more)


def result(start: int, end: int) -> LaunchResult:
    pes = {"pe_start_ps": {}, "pe_end_ps": {}}
    return LaunchResult(call_ps=0, target_start_ps=0, start_ps=start, end_ps=end, response_ps=end, **pes)


def shown(slices: Slices) -> list[tuple[str, str]]:
    """The title of the track and the name of each slice, without the line of the test."""
    pairs = zip(slices.track.tolist(), slices.name.tolist(), strict=True)
    return [(slices.places[at].title, re.sub(r" \S+\.py:\d+", "", slices.names[name])) for at, name in pairs]


@pytest.mark.parametrize(
    ("spans", "ps"), [([(0, 5), (7, 9)], 7), ([(0, 5), (3, 9), (4, 6)], 9), ([(4, 6), (0, 9)], 9), ([], 0)]
)
def test_time_in_which_launches_overlap_counts_once(spans: list[tuple[int, int]], ps: int) -> None:
    assert kernel_ps([result(*each) for each in spans]) == ps


def test_a_table_has_a_row_for_each_stream_where_there_are_several() -> None:
    launches = [times(1, 11, stream=0), times(6, 16, stream=1), times(20, 25)]
    (table,) = stream_tables(launches)
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    assert rows == [
        ("none", "1", "5.000 ns", "5.000 ns", "20.000 ns", "25.000 ns"),
        ("0", "1", "10.000 ns", "5.000 ns", "1.000 ns", "11.000 ns"),
        ("1", "1", "10.000 ns", "5.000 ns", "6.000 ns", "16.000 ns"),
    ]
    assert stream_tables(launches[:1]) == stream_tables(launches[2:]) == []


def test_launches_of_a_stream_have_tracks_of_their_own() -> None:
    slices = launch_slices([times(1, 11, stream=0), times(6, 16, stream=1), times(12, 18, stream=0), times(30, 40)])
    assert [each for each in shown(slices) if "kernels" in each[0]] == [
        ("kernels", "launch 3"),
        ("stream 0: kernels", "launch 0"),
        ("stream 0: kernels", "launch 2"),
        ("stream 1: kernels", "launch 1"),
    ]


@pytest.fixture(scope="module")
def one_sip() -> Topology:
    return load_topology(bundled.find("topologies", "one_sip"))


def test_transfers_and_waits_of_streams_are_slices_with_lines(one_sip: Topology) -> None:
    host = Host(Engine(one_sip, MemoryLogWriter()))
    x = host.tensor("x", np.zeros((64, 64), np.float16), "f16", cube=0)
    s, t, u = host.stream(), host.stream(), host.stream()
    host.launch(loads, x, 40, pes=[0], stream=s)
    host.launch(loads, x, 1, pes=[0], stream=t)
    u.wait(s.record())
    host.read(x, stream=u)
    slices = stream_slices(host.engine.close_log())
    assert slices is not None
    assert all(re.search(r" \S*test_streams\.py:\d+$", each) for each in slices.names)
    assert shown(slices) == [
        ("stream 2: host", "wait for an event"),
        ("stream 2: host", "read"),
        ("waits for the PE", "launch"),
    ]


def test_a_log_without_streams_has_no_such_slices(one_sip: Topology) -> None:
    host = Host(Engine(one_sip, MemoryLogWriter()))
    host.launch(lambda tl: None, pes=[0])
    assert stream_slices(host.engine.close_log()) is None


def test_a_page_has_lanes_of_streams_and_paths_that_overlap(one_sip: Topology, tmp_path: Path) -> None:
    host = Host(Engine(one_sip, MemoryLogWriter()))
    x = host.tensor("x", np.zeros((64, 64), np.float16), "f16", cube=0)
    for stream in (host.stream(), host.stream()):
        host.launch(loads, x, 20, pes=[stream.number], stream=stream)
        host.launch(loads, x, 1, pes=[0], stream=stream)
    host.synchronize()
    timeline = RunTimeline(tmp_path, host.engine.close_log(), [launch_times(each) for each in host.launches])
    assert "waits" not in timeline.tables
    lanes = {place.title for place in timeline.table("launches").slices.places}
    assert {"stream 0: kernels", "stream 1: kernels"} <= lanes
    paths = timeline.table("path").slices
    for track in range(len(paths.places)):
        mine = np.flatnonzero(paths.track == track)
        assert (paths.start_ps[mine][1:] >= paths.end_ps[mine][:-1]).all()
    assert len(paths.places) > 1
