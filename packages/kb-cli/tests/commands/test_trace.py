"""`kb trace`: the file says what the op log says."""

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto_decoder import Decoded
from trace_runs import GEMM, Invoke, copied, gemm_run, read, services

from kb_cli.benchmark import bundled
from kb_cli.trace.critical_path import PATH, PathSegments
from kb_cli.trace.run_log import read_run_log
from kb_cli.trace.run_trace import Shown, run_trace
from kb_cli.trace.trace_file import Unit, trace_blocks
from kb_cli.trace.window import Window
from kb_dataexec import OpLog, read_log
from kb_dataexec.analysis import all_transfers
from kb_dataexec.log import write_log

STENCIL = ["-p", "rows=16", "-p", "width=16", "-p", "pes=4"]
ALL = Window(0, 2**63 - 1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def folder(invoke: Invoke, runs: Path) -> Path:
    return gemm_run(invoke, runs)


def rows_of(log: OpLog, unit_ps: int) -> list[tuple[Any, ...]]:
    """(block and stage, name, begin, length, op, command, tile) of every record."""
    texts = log.strings
    return sorted(
        (
            f"{texts[row['component']]}: {texts[row['name']]}",
            f"{texts[row['name']]} {texts[row['line']]}",
            int(row["t_start_ps"]) // unit_ps,
            int(row["t_end_ps"]) // unit_ps - int(row["t_start_ps"]) // unit_ps,
            *(int(row[column]) for column in ("op_id", "command_seq", "tile_id")),
        )
        for row in log.ops
    )


@pytest.mark.parametrize(("unit", "unit_ps"), [("ns", 1000), ("ps", 1)])
@pytest.mark.parametrize("ending", [".pftrace", ".pftrace.gz"])
def test_every_record_of_the_log_is_a_slice(invoke: Invoke, folder: Path, unit: str, unit_ps: int, ending: str) -> None:
    decoded = read(invoke, folder, f"x{ending}", "--unit", unit)
    log = read_log(folder / "log")
    found = sorted(
        (".".join(each.track[1:]), each.name, each.ts, each.dur, *each.arguments.values()) for each in services(decoded)
    )
    assert found == rows_of(log, unit_ps)
    assert len(found) == log.n_ops > 100
    busy_ps = int((log.ops["t_end_ps"] - log.ops["t_start_ps"]).sum())
    error = log.n_ops if unit == "ns" else 0
    assert abs(sum(each.dur for each in services(decoded)) * unit_ps - busy_ps) <= error * unit_ps
    assert decoded.tracks[0] == (f"kernbench gemm on one_cube{', 1 ns shown is 1 ps' if unit == 'ps' else ''}",)


def test_tracks_stand_in_the_order_of_the_pipeline(invoke: Invoke, folder: Path) -> None:
    decoded = read(invoke, folder, "x.pftrace")
    used = {each.track for each in (*decoded.slices, *decoded.values)}
    assert {track for track in decoded.tracks if len(track) == 3} == used, "a track without slices"
    mine = [track[2] for track in decoded.tracks if track[1:2] == ("sip0.cube0.pe0",) and len(track) == 3]
    port = "pe_fetch_store"
    mine = [track for track in mine if track != PATH]
    assert mine == ["pe_dma: dma_read", f"{port}: fetch", "pe_gemm: gemm", f"{port}: store", "pe_dma: dma_write"]
    groups = [track[1] for track in decoded.tracks if len(track) == 2]
    assert groups == [f"sip0.cube0.pe{pe}" for pe in range(8)] + ["memories", "links", "launches"]


def test_services_lie_inside_the_kernels_and_these_inside_the_call(invoke: Invoke) -> None:
    """After rounding too. The chip has a host, so a launch begins after its call."""
    run_dir = json.loads(invoke("run", "softmax", "--topology", "one_sip", "--json").stdout)["run_dir"]
    decoded = read(invoke, Path(run_dir), "x.pftrace")
    ((call, kernels),) = [[each for each in decoded.slices if each.track[1] == "launches"]]
    path = [each for each in decoded.slices if each.track[2] == PATH]
    assert sum(each.arguments["end_ps"] - each.arguments["start_ps"] for each in path) == (
        kernels.arguments["end_ps"] - kernels.arguments["start_ps"]
    )
    assert (call.track[2], kernels.track[2]) == ("call to answer", "kernels")
    assert (call.name, kernels.arguments["pes"]) == ("launch 0", 128)
    assert call.ts < kernels.ts
    assert kernels.ts + kernels.dur < call.ts + call.dur
    assert (
        kernels.arguments["end_ps"] - kernels.arguments["start_ps"]
        == json.loads((Path(run_dir) / "run.json").read_text())["results"]["latency_ps"]
    )
    inside = services(decoded)
    assert min(each.ts for each in inside) >= kernels.ts
    assert max(each.ts + each.dur for each in inside) <= kernels.ts + kernels.dur
    pes = [track[1] for track in decoded.tracks if len(track) == 2 and track[1].startswith("sip")]
    assert pes == [f"sip0.cube{cube}.pe{pe}" for cube in range(16) for pe in range(8)]


def test_equal_runs_give_equal_bytes(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    for name in ("a.pftrace", "b.pftrace", "a.pftrace.gz", "b.pftrace.gz"):
        done = invoke("trace", folder, "-o", name)
    assert Path("a.pftrace").read_bytes() == Path("b.pftrace").read_bytes()
    assert Path("a.pftrace.gz").read_bytes() == Path("b.pftrace.gz").read_bytes()
    assert Path("a.pftrace.gz").read_bytes()[3:8] == bytes(5), "the name or the time of the file is in it"
    on_path = [each for each in Decoded.file(Path("a.pftrace")).slices if each.track[2] == PATH]
    assert len({each.track for each in on_path}) == 1, "no memory is shared, so the path stays on one PE"
    log, size = read_log(folder / "log"), Path("b.pftrace.gz").stat().st_size
    n_slices = log.n_ops + 2 + len(on_path) + len(all_transfers(log))
    n_tracks = 1 + 8 * 6 + 1 + 3 + 1 + 8 + 8 + 1 + 32
    assert done.stdout == f"b.pftrace.gz: {n_slices} slices on {n_tracks} tracks, {size / 1000:.4g} kB\n"
    assert len(list(tmp_path.iterdir())) == 4, "something stays beside the files"


def test_a_pe_and_a_window(invoke: Invoke, folder: Path) -> None:
    everything = services(read(invoke, folder, "x.pftrace", "--unit", "ps"))
    one = services(read(invoke, folder, "x.pftrace", "--unit", "ps", "--pe", "sip0.cube0.pe3"))
    assert one == [each for each in everything if each.track[1] == "sip0.cube0.pe3"]
    begin, end = sorted(each.ts for each in one)[3] + 1, sorted(each.ts for each in one)[9]
    window = ["--from", f"{begin / 1000:.3f}", "--to", f"{end / 1000:.3f}"]
    some = services(read(invoke, folder, "x.pftrace", "--unit", "ps", "--pe", "sip0.cube0.pe3", *window))
    assert some == [each for each in one if each.ts + each.dur > begin and each.ts < end]
    assert 0 < len(some) < len(one)
    assert any(each.ts < begin for each in some), "a slice that is cut by the window is shown whole"


def held(decoded: Decoded, group: str) -> dict[str, float]:
    """For each counter of *group*, its value times the picoseconds that it holds, added up. The file is in ps."""
    found: dict[str, float] = {}
    last: dict[str, tuple[int, float]] = {}
    for each in decoded.values:
        if each.track[1] == group:
            begin, value = last.get(each.track[2], (each.ts, 0.0))
            found[each.track[2]] = found.get(each.track[2], 0.0) + value * (each.ts - begin)
            last[each.track[2]] = each.ts, each.value
    assert all(value == 0 for _, value in last.values())
    return found


def test_counters_add_up_to_the_bytes_and_times_that_the_simulator_counted(invoke: Invoke, folder: Path) -> None:
    """Blocks and links count while they work; the trace knows the log and the chip alone."""
    results = json.loads((folder / "run.json").read_text())["results"]
    decoded = read(invoke, folder, "x.pftrace", "--unit", "ps")
    memories, links = held(decoded, "memories"), held(decoded, "links")
    assert list(memories) == [f"sip0.cube0.hbm{n}" for n in range(8)]
    moved = sum(memories.values()) / 100 * 102.4 / 1000  # % of the 102.4 bytes a nanosecond of each
    assert moved == pytest.approx(sum(results["bytes"]["hbm"].values()), rel=1e-4)
    busiest = results["busiest"]["link"]
    assert max(links.values()) / 100 / results["latency_ps"] == pytest.approx(busiest["utilization"], rel=1e-3)
    n_links = results["busiest"]["link"]["count"]
    assert sum(links.values()) / 100 / results["latency_ps"] / n_links == pytest.approx(
        results["utilization"]["link"], rel=1e-3
    )


def test_with_one_pe_its_counters_have_the_traffic_of_all(invoke: Invoke, folder: Path) -> None:
    everything = read(invoke, folder, "x.pftrace")
    one = read(invoke, folder, "x.pftrace", "--pe", "sip0.cube0.pe5")
    names = {each.track for each in one.values}
    assert {track[2] for track in names if track[1] == "memories"} == {"sip0.cube0.hbm5"}
    assert 1 < len(names) < len({each.track for each in everything.values})
    assert one.values == [each for each in everything.values if each.track in names]


def lanes_of_memories(decoded: Decoded) -> list[Any]:
    return [each for each in decoded.slices if each.track[1] == "memories"]


def test_a_memory_shows_whom_it_served_when(invoke: Invoke) -> None:
    """Eight PEs read from slices that they share. No two of them hold a slice at a time, and bytes take their time.

    No read interrupts a write in this run. The earlier part of such a write has no row in the log.
    """
    sizes = ["-p", "M=96", "-p", "N=48", "-p", "K=56", "-p", "tile=16x16x24"]
    run_dir = json.loads(invoke("run", "gemm", *sizes, "-p", "operands=one_slice", "--json").stdout)["run_dir"]
    decoded, log = read(invoke, Path(run_dir), "x.pftrace", "--unit", "ps"), read_log(Path(run_dir) / "log")
    found = lanes_of_memories(decoded)
    moves = [row for row in log.ops if log.strings[row["name"]].startswith("dma_")]
    assert sorted(each.arguments["op"] for each in found) == sorted(int(row["op_id"]) for row in moves)
    rows = {int(row["op_id"]): row for row in moves}
    waited = 0
    for title in {each.track for each in found}:
        lane = sorted((each for each in found if each.track == title), key=lambda each: each.ts)
        assert all(one.ts + one.dur <= other.ts for one, other in pairwise(lane))
        waited += sum(one.ts + one.dur == other.ts for one, other in pairwise(lane))
        for each in lane:
            row = rows[each.arguments["op"]]
            pe = log.strings[row["component"]].removesuffix(".pe_dma")
            assert each.name == f"{pe}: {log.strings[row['name']]} {log.strings[row['line']]}"
            assert row["t_start_ps"] < each.ts < each.ts + each.dur < row["t_end_ps"]
    assert waited > 10, "nobody waited"
    nbytes = sum(json.loads((Path(run_dir) / "run.json").read_text())["results"]["bytes"]["hbm"].values())
    assert sum(each.dur for each in found) * 102.4 / 1000 == pytest.approx(nbytes, abs=0.1024 * len(found))


def test_with_one_pe_its_memories_have_the_services_of_all(invoke: Invoke) -> None:
    run_dir = json.loads(invoke("run", "gemm", *GEMM, "-p", "operands=one_slice", "--json").stdout)["run_dir"]
    everything = lanes_of_memories(read(invoke, Path(run_dir), "x.pftrace"))
    one = lanes_of_memories(read(invoke, Path(run_dir), "x.pftrace", "--pe", "sip0.cube0.pe5"))
    used = {each.track for each in everything if each.name.startswith("sip0.cube0.pe5: ")}
    assert one == [each for each in everything if each.track in used]
    assert len({each.name.split(":")[0] for each in one}) > 2


def test_a_memory_without_begins_has_a_track_for_each_service_at_once(invoke: Invoke) -> None:
    more = ["-p", "operands=one_slice", "--topology", "one_cube_banked"]
    run_dir = json.loads(invoke("run", "gemm", *GEMM, *more, "--json").stdout)["run_dir"]
    decoded, log = read(invoke, Path(run_dir), "x.pftrace"), read_log(Path(run_dir) / "log")
    assert len(lanes_of_memories(decoded)) == len(all_transfers(log))
    titles = [track[2] for track in decoded.tracks if track[1:2] == ("memories",) and track[2:]]
    served = [title for title in titles if title.endswith(": served")]
    assert len(served) > len(set(served)) > 1


def test_a_log_without_transfers_has_no_lanes_of_memories_and_says_so(
    invoke: Invoke, folder: Path, tmp_path: Path
) -> None:
    run = copied(folder, tmp_path)
    log = read_log(run / "log")
    tables = {name: table for name, table in log.tables.items() if name != "transfers"}
    shutil.rmtree(run / "log")
    written = write_log(run / "log", OpLog(log.ops, log.operands, log.strings, log.immediates, tables=tables))
    claims = run / "run.json"
    claims.write_text(claims.read_text().replace(log.digest, written.digest))
    done = invoke("trace", "x", "-o", "x.pftrace")
    said = "x: got a log without the table transfers, so the service of memories is left out"
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (0, [said])
    decoded = Decoded.file(Path("x.pftrace"))
    assert lanes_of_memories(decoded) == []
    assert len(services(decoded)) == log.n_ops


@pytest.mark.parametrize(
    ("chip", "old", "new", "reason"),
    [
        ("one_cube", "builtin.pe_gemm", "acme.pe_gemm", r".*: got 'acme\.pe_gemm', needs the name of an installed .*"),
        ("one_pe", "", "", r"sip0\.cube0\.pe1\.pe_dma: dma_read: got a transfer with memory 0x\w+, needs a .*"),
    ],
)  # fmt: skip
def test_without_the_chip_of_the_run_a_trace_has_no_counters(
    invoke: Invoke, folder: Path, tmp_path: Path, chip: str, old: str, new: str, reason: str
) -> None:
    text = bundled.find("topologies", chip).read_text()
    assert old in text
    (copied(folder, tmp_path) / "topology.yaml").write_text(text.replace(old, new, 1))
    done = invoke("trace", "x", "-o", "x.pftrace")
    assert (done.exit_code, done.stderr) == (0, "")
    assert re.fullmatch(rf"x: got no counters of links and memories: {reason}", done.stdout.splitlines()[1])
    decoded = Decoded.file(Path("x.pftrace"))
    assert decoded.values == []
    assert len(services(decoded)) == read_log(folder / "log").n_ops


def path_of(pe: list[str], start_ps: list[int], end_ps: list[int]) -> PathSegments:
    """Segments by hand: each PE's, of two blocks in turn."""
    strings = [*sorted(set(pe)), "mine.py:7", "", "pe_gemm", "steps", "hbm", "bytes"]
    at = {text: number for number, text in enumerate(strings)}
    second = np.arange(len(pe)) % 2
    return PathSegments(
        np.array(start_ps), np.array(end_ps), np.array([at[each] for each in pe]),
        np.where(second, at[""], at["mine.py:7"]), np.where(second, at["hbm"], at["pe_gemm"]),
        np.where(second, at["bytes"], at["steps"]), strings,
    )  # fmt: skip


def test_the_critical_path_stands_above_the_servers(folder: Path) -> None:
    """A path by hand: on two PEs, one of which has no records, contiguous and out of order."""
    one, none = "sip0.cube0.pe1", "sip7.cube0.pe0"
    path = path_of([one, one, none, one], [5000, 7001, 9500, 0], [7001, 9500, 12_000, 5000])
    run = read_run_log(folder)
    decoded = Decoded(b"".join(trace_blocks(run_trace(run, Shown(ALL, None, Unit.NS), lambda: path), Unit.NS)))
    shown = [each for each in decoded.slices if each.track[2:] == ("critical path",)]
    assert [(each.track[1], each.name, each.ts, each.dur, each.arguments) for each in shown] == [
        (one, "hbm: bytes", 0, 5, {"start_ps": 0, "end_ps": 5000}),
        (one, "pe_gemm: steps mine.py:7", 5, 2, {"start_ps": 5000, "end_ps": 7001}),
        (one, "hbm: bytes", 7, 2, {"start_ps": 7001, "end_ps": 9500}),
        (none, "pe_gemm: steps mine.py:7", 9, 3, {"start_ps": 9500, "end_ps": 12_000}),
    ]
    below = [track[2] for track in decoded.tracks if len(track) == 3 and track[1] == one]
    assert below[:2] == ["critical path", "pe_dma: dma_read"]
    alone = run_trace(run, Shown(Window(6000, 7001), one, Unit.NS), lambda: path)
    (found,) = [each for each in alone.slices if "end_ps" in each.arguments and "pes" not in each.arguments]
    assert found.arguments["end_ps"].tolist() == [7001]


def test_a_log_that_was_cut_off_is_shown_as_far_as_it_goes(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    run = copied(folder, tmp_path)
    (run / "log" / "manifest.json").unlink()
    log = read_log(run / "log", prefix=True)
    done = invoke("trace", "x", "-o", "x.pftrace")
    assert (done.exit_code, done.stderr) == (0, "")
    end_ns = int(log.ops["t_out_ps"].max()) / 1000
    said = f"x: got a log that was cut off: it goes up to {end_ns} ns, and later times are missing"
    assert done.stdout.splitlines()[1:] == [said]
    assert len(services(Decoded.file(Path("x.pftrace")))) == log.n_ops


def test_a_flow_leads_from_each_send_to_its_message(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", "stencil", *STENCIL, "--levers", "none", "--out", tmp_path)
    (folder,) = tmp_path.glob("stencil-*")
    log, decoded = read_log(folder / "log"), read(invoke, folder, "t.pftrace", "--unit", "ps")
    sends = log.tables["sends"]
    ends = {each.flow: each for each in decoded.slices if each.flow}
    assert len(sends) > 0
    assert sorted(ends) == sorted([*-1 - sends["command_seq"], *sends["command_seq"] + 1])
    for row in sends:
        begun, ended = ends[row["command_seq"] + 1], ends[-1 - row["command_seq"]]
        assert begun.track[2] == "pe_dma: dma_write"
        assert ended.track[1:] == (log.strings[row["dst"]], "messages")
        assert begun.ts < ended.ts == row["t_taken_ps"]
    waits = [each for each in decoded.slices if each.track[2:] == ("waits for other PEs",)]
    assert sum(each.dur for each in waits) == (log.tables["waits"]["to_ps"] - log.tables["waits"]["from_ps"]).sum() > 0
    alone = read(invoke, folder, "one.pftrace", "--pe", "sip0.cube0.pe0")
    assert not any(each.flow for each in alone.slices)
