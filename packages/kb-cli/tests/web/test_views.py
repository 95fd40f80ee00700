"""What the views of `kb web` get besides the timeline: why, source, stalls, topology, roofline, compare."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from click.testing import CliRunner
from web_client import Client, served

from kb_cli.main import kb
from kb_cli.run.records.run_loads import read_loads
from kb_dataexec import OpLog, read_log
from kb_dataexec.analysis import Causes, path
from kb_messages import LogError

SHARED = ["gemm", "-p", "M=72", "-p", "N=40", "-p", "K=56", "-p", "operands=one_slice", "-p"]

LARGE = ["gemm", "-p", "M=256", "-p", "N=1024", "-p", "K=1024", "-p", "tile=256x256x256", "--topology", "one_pe"]
LARGE += ["--no-verify", "--keep", "all"]


def run_kb(*args: object) -> str:
    done = CliRunner().invoke(kb, [str(arg) for arg in args], catch_exceptions=False)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A product of eight PEs that share memories, the same in smaller tiles, another benchmark, and large tiles."""
    out = tmp_path_factory.mktemp("runs")
    args = ([*SHARED, "tile=16x16x24"], [*SHARED, "tile=8x16x24"], ["rope"], LARGE)
    return [Path(json.loads(run_kb("run", *each, "--out", out, "--json"))["run_dir"]) for each in args]


@pytest.fixture(scope="module")
def client(runs: list[Path]) -> Iterator[Client]:
    with served(runs[0].parent) as found:
        yield found


@pytest.fixture(scope="module")
def log(runs: list[Path]) -> OpLog:
    return read_log(runs[0] / "log")


@pytest.fixture(scope="module")
def ask(client: Client, runs: list[Path]) -> Any:
    names = {each["name"]: each["id"] for each in client.ask("/api/runs").json["runs"]}
    ids = [names[folder.name] for folder in runs]

    def get(name: str, **fields: object) -> Any:
        given = {"run": 0, **fields}
        given |= {field: ids[int(given[field])] for field in ("run", "with") if field in given}
        return client.ask(f"/api/{name}?" + "&".join(f"{field}={quote(str(value))}" for field, value in given.items()))

    return get


def test_a_chain_goes_back_without_gaps_to_the_start_of_its_program(log: OpLog) -> None:
    causes = Causes(log)
    starts = dict(zip(log.table("kernels")["pe"].tolist(), log.table("kernels")["t_start_ps"].tolist(), strict=True))
    for row in log.ops[:: max(log.n_ops // 40, 1)]:
        chain = causes.before(int(row["op_id"]))
        assert chain.start_ps[1:].tolist() == chain.end_ps[:-1].tolist()
        assert chain.end_ps[-1] == row["t_end_ps"]
        assert chain.start_ps[0] in starts.values()


def test_the_chain_of_the_last_op_is_the_critical_path(log: OpLog) -> None:
    last = log.ops[np.argmax(log.ops["t_end_ps"])]
    chain, whole = Causes(log).before(int(last["op_id"])), path(log, 0)
    inside = np.array([whole.strings[each] not in ("launch", "answer") for each in whole.via])
    assert chain.start_ps.tolist() == whole.start_ps[inside].tolist()
    assert chain.op_id.tolist() == whole.op_id[inside].tolist()


def test_holders_end_when_a_tile_enters(log: OpLog) -> None:
    ops = {int(row["op_id"]): row for row in log.ops}
    waited = log.ops[log.ops["wait_channel_ps"] > 0]
    found = Causes(log).holders(waited["op_id"], "start")
    assert {each.via for each in found} == {"throughput"}
    for row, holder in zip(waited, found, strict=True):
        held_by = ops[holder.op_id]
        assert (held_by["component"], held_by["name"]) == (row["component"], row["name"])
        assert row["t_start_ps"] in (held_by["t_out_ps"], held_by["t_end_ps"])
    full = log.ops[log.ops["t_out_ps"] > log.ops["t_end_ps"]]
    for row, holder in zip(full, Causes(log).holders(full["op_id"], "left"), strict=True):
        assert holder.via in ("queue_full", "transfer_order")
        assert ops[holder.op_id]["t_out_ps"] == row["t_out_ps"]


def test_an_op_of_no_log_has_no_causes(log: OpLog) -> None:
    with pytest.raises(
        LogError, match="op log: got op 99999999, needs an op whose command and program have rows in the log"
    ):
        Causes(log).before(99_999_999)


def test_why_pages_through_its_chain(ask: Any, log: OpLog) -> None:
    last = log.ops[np.argmax(log.ops["t_end_ps"])]
    found = ask("why", op=int(last["op_id"])).json
    assert sum(each["ps"] for each in found["shares"]) == last["t_end_ps"] - found["from_ps"]
    assert found["links"][0]["t1_ps"] == last["t_end_ps"]
    assert len(found["links"]) == min(found["count"], 200)
    rest = ask("why", op=int(last["op_id"]), skip=found["count"] - 1).json
    assert [each["t0_ps"] for each in rest["links"]] == [found["from_ps"]]
    assert ask("why", op=int(last["op_id"]), skip=found["count"] + 1).status == 400
    assert ask("why", op=-1).text == "op: got '-1', needs a whole number from 0 to 4611686018427387904\n"


def test_the_matrix_has_all_time_of_all_tiles(ask: Any, log: OpLog) -> None:
    found = ask("stalls").json
    before = {"tile_buffer", "fetch_order"}
    spent = sum(ps for row in found["rows"] for reason, ps in row["ps"].items() if reason not in before)
    assert spent == int((log.ops["t_out_ps"] - log.ops["t_ready_ps"]).sum())
    assert sum(row["tiles"] for row in found["rows"]) == found["tiles"] == log.n_ops
    longest = max(int(log.ops[name].max()) for name in log.ops.dtype.names if name.startswith("wait_"))
    assert max(each["ps"] for each in waits_of(found)) >= longest
    by_memory = [each for each in waits_of(found) if each["reason"] == "memory"]
    assert {each["via"] for each in by_memory} <= {"memory"}
    assert all(each["holder"] is not None for each in by_memory)


def test_a_page_that_waits_is_told_what_is_read_and_how_far(ask: Any, log: OpLog) -> None:
    assert ask("overview").status == ask("stalls").status == 200
    steps = {each["name"]: each for each in ask("loading").json["steps"]}
    assert {"files", "first report", "log", "timeline", "stalls"} <= steps.keys()
    assert all(each["is_done"] for each in steps.values())
    assert (steps["log"]["done"], steps["log"]["total"]) == (log.n_ops, log.n_ops)
    assert ask("of_log").json["lines"][0]["in_flight_ps"] > 0
    assert ask("overview").json["report"]["lines"][0]["in_flight_ps"] is None, "the first part reads no log"


def waits_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The single waits of all groups of *found*."""
    return [wait for group in found["groups"] for wait in group["waits"]]


def test_waits_that_are_alike_are_one_group_with_their_sum(ask: Any, log: OpLog) -> None:
    found = ask("stalls").json
    spent = sum(ps for row in found["rows"] for reason, ps in row["ps"].items() if reason != "service")
    assert found["waited_ps"] == spent == sum(group["ps"] for group in found["groups"])
    assert found["of_groups"] == len(found["groups"])
    sums = [group["ps"] for group in found["groups"]]
    assert sums == sorted(sums, reverse=True)
    keys = [(group["block"], group["stage"], group["line"], group["reason"]) for group in found["groups"]]
    assert len(set(keys)) == len(keys)
    names, stages = np.array(log.strings)[log.ops["component"]], np.array(log.strings)[log.ops["name"]]
    waited = log.ops["wait_channel_ps"]
    for group in found["groups"]:
        waits = [each["ps"] for each in group["waits"]]
        assert waits == sorted(waits, reverse=True)
        assert {each["component"].rpartition(".")[2] for each in group["waits"]} == {group["block"]}
        if group["reason"] != "channel":
            continue
        mine = np.char.endswith(names, f".{group['block']}") & (stages == group["stage"]) & (waited > 0)
        assert (group["tiles"], group["ps"]) == (int(mine.sum()), int(waited[mine].sum()))
        by_pe = {name: waited[mine & (names == name)] for name in np.unique(names[mine])}
        assert group["pes"] == len(by_pe)
        assert group["most_ps"] == max(int(each.sum()) for each in by_pe.values())
        assert group["alike"] == (len({(len(each), int(each.sum())) for each in by_pe.values()}) == 1)


def test_waits_for_tile_buffers_come_from_the_table_of_dispatches(ask: Any, runs: list[Path]) -> None:
    log = read_log(runs[3] / "log")
    ready = dict(zip(log.ops["op_id"].tolist(), log.ops["t_ready_ps"].tolist(), strict=True))
    rows = log.table("dispatches")
    waited = dict(zip(rows["op_id"].tolist(), (rows["t_claimed_ps"] - rows["t_in_order_ps"]).tolist(), strict=True))
    assert max(waited.values()) > 0
    found = ask("stalls", run=3).json
    assert sum(row["ps"].get("tile_buffer", 0) for row in found["rows"]) == sum(waited.values())
    mine = [each for each in waits_of(found) if each["reason"] == "tile_buffer"]
    assert mine
    for each in mine:
        assert (each["ps"], each["t_ps"]) == (waited[each["op"]], ready[each["op"]])
        assert each["via"] == "tile_buffer"
        (held_by,) = log.ops[log.ops["op_id"] == each["holder"]]
        assert held_by["t_end_ps"] == each["t_ps"]  # the fetch, or the write, that freed the buffer


def test_stalls_of_one_pe_line_and_window(ask: Any, log: OpLog) -> None:
    strings = np.array(log.strings)
    mine = log.ops[np.char.startswith(strings[log.ops["component"]], "sip0.cube0.pe2.")]
    assert ask("stalls", pe="sip0.cube0.pe2").json["tiles"] == len(mine)
    t0, t1 = 100_000, 150_000
    there = (mine["t_out_ps"] >= t0) & (mine["t_ready_ps"] < t1)
    found = ask("stalls", pe="sip0.cube0.pe2", t0=t0, t1=t1).json
    assert found["tiles"] == int(there.sum())
    assert {each["component"].rpartition(".")[0] for each in waits_of(found)} <= {"sip0.cube0.pe2"}
    (line,) = found["lines"]
    assert ask("stalls", line=line).json["tiles"] == log.n_ops
    assert ask("stalls", line="x.py:1").text == "line: got 'x.py:1', needs one that has records in the log\n"
    assert ask("stalls", t0=5, t1=5).text.startswith("t0, t1: got a window without time")


def test_the_source_has_the_lines_of_the_report(ask: Any, runs: list[Path]) -> None:
    found = ask("source").json
    assert found["text"] == (runs[0] / "bench.py").read_text()
    assert sum(line["ps"] for line in found["lines"]) == found["total_ps"]


def test_links_in_the_whole_window_are_as_busy_as_the_run_says(ask: Any, runs: list[Path]) -> None:
    found = ask("topology").json
    _, loads = read_loads(runs[0])
    loaded = {f"{src} -> {dst}": load for (src, dst), load in loads.links.items() if load.nbytes}
    links = {each["name"]: each for each in found["parts"] if " -> " in each["name"]}
    assert {name: each["nbytes"] for name, each in links.items()} == {
        name: load.nbytes for name, load in loaded.items()
    }
    span = found["t1_ps"] - found["t0_ps"]
    for name, each in links.items():  # the run counts busy picoseconds, each transfer's rounded up
        assert each["share"] == pytest.approx(loaded[name].utilization, abs=64 * 1000 / span)
        assert sum(each["by_pe"].values()) == pytest.approx(each["nbytes"], abs=len(each["by_pe"]))
    assert "one_cube: sip0.cube0 in" in found["svg"]
    half = ask("topology", t0=0, t1=span // 2).json
    rest = ask("topology", t0=span // 2, t1=span).json
    for each in half["parts"]:
        other = next(part for part in rest["parts"] if part["name"] == each["name"])
        whole = next(part for part in found["parts"] if part["name"] == each["name"])
        assert each["nbytes"] + other["nbytes"] == pytest.approx(whole["nbytes"], abs=1)


def test_the_picture_of_a_part_and_of_none(ask: Any) -> None:
    assert "pe_gemm" in ask("topology", part="sip0.cube0.pe3").json["svg"]
    assert ask("topology", shown="sip").json["view"] == "sip"
    assert ask("topology", shown="atom").text == "shown: got 'atom', needs one of system, sip, cube, pe\n"
    assert "got 'sip9'" in ask("topology", part="sip9").text


def test_roofline_and_compare_have_the_figures_of_the_commands(ask: Any, runs: list[Path]) -> None:
    found = ask("roofline").json
    assert found["chart"] == json.loads(run_kb("report", runs[0], "--levers", 0, "--json"))["roofline"]
    assert found["svg"].startswith("<svg ")
    compared = ask("compare", **{"run": 1, "with": 0}).json
    assert compared["found"] == json.loads(run_kb("compare", runs[0], runs[1], "--json"))
    other = ask("compare", **{"run": 2, "with": 0}).json
    assert (other["blocks_alone"], other["found"]["rows"]) == (True, [])
    assert ask("compare").text == "with: got nothing, needs a value in the address\n"


def test_a_chip_without_its_log_has_the_same_picture_and_shares(ask: Any) -> None:
    first, whole = ask("topology", users="later").json, ask("topology").json
    assert (first["has_users"], whole["has_users"]) == (False, True)
    for name in ("svg", "view", "part", "crumbs", "why", "is_counted"):
        assert first[name] == whole[name]
    assert [(each["name"], each["share"]) for each in first["parts"]] == [
        (each["name"], each["share"]) for each in whole["parts"][: len(first["parts"])]
    ]
    assert {each["users"] for each in first["parts"]} == {0}
    half = ask("topology", users="later", t0=0, t1=whole["t1_ps"] // 2).json
    assert half["has_users"] is True
