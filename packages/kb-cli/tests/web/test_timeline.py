"""What the timeline of `kb web` gets: exact coverage of any window, slices, edges, a search, and sentences."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from click.testing import CliRunner
from web_client import Client, served

from kb_cli.main import kb
from kb_cli.report.pictures.lanes import coverage
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_cli.web.answers.messages import message_arrows, message_of
from kb_cli.web.lanes.colourings import OTHERS, by_words
from kb_cli.web.lanes.lane_table import FULL, LaneTable
from kb_cli.web.run_timeline import OPS, WAITS, RunTimeline
from kb_dataexec import OpLog, read_log
from kb_dataexec.analysis import paths

GEMM = ["-p", "M=72", "-p", "N=40", "-p", "K=112", "-p", "tile=16x16x24"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    for options in ([], ["--keep", "none", "--seed", "1"]):
        done = CliRunner().invoke(
            kb, ["run", "gemm", *GEMM, *options, "--levers", "none", "--out", str(out)], catch_exceptions=False
        )
        assert done.exit_code == 0
    return out


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[Client]:
    with served(runs) as found:
        yield found


class Asked:
    """The run with its log, asked for one thing after the other."""

    def __init__(self, client: Client, runs: Path) -> None:
        self.client = client
        self.folder = next(each for each in runs.iterdir() if (each / "log").is_dir())
        listed = client.ask("/api/runs").json["runs"]
        self.id = next(each["id"] for each in listed if each["name"] == self.folder.name)
        self.other = next(each["id"] for each in listed if each["name"] != self.folder.name)
        self.log: OpLog = read_log(self.folder / "log")

    def get(self, name: str, run: str = "", **fields: object) -> Any:
        query = "&".join(f"{field}={quote(str(value))}" for field, value in {"run": run or self.id, **fields}.items())
        return self.client.ask(f"/api/{name}?{query}")

    def window(self, **fields: object) -> tuple[dict, list[dict]]:
        body = self.get("window", **fields).body
        length = int.from_bytes(body[:4], "little")
        head, at = json.loads(body[4 : 4 + length]), 4 + length
        for part in head["parts"]:
            sizes = {"cover": ("u1", head["pixels"]), "kind": ("u1", part["kinds"])}
            if part["slices"] is not None:
                sizes = {name: (kind, part["slices"]) for name, kind in SLICES.items()}
            for name, (kind, count) in sizes.items():
                part[name] = np.frombuffer(body, kind, count, at)
                at += part[name].nbytes
        assert at == len(body)
        return head, head["parts"]


SLICES = {"start": "<f8", "end": "<f8", "row": "<i4", "name": "<i4", "kind": "u1"}


@pytest.fixture(scope="module")
def asked(client: Client, runs: Path) -> Asked:
    return Asked(client, runs)


def rows_of(log: OpLog, component: str, stage: str) -> np.ndarray:
    names = np.array(log.strings)
    return log.ops[(names[log.ops["component"]] == component) & (names[log.ops["name"]] == stage)]


def test_every_service_has_a_place(asked: Asked) -> None:
    found = asked.get("lanes", table="ops").json
    assert found["slices"] == asked.log.n_ops
    assert [group["name"] for group in found["groups"]] == [f"sip0.cube0.pe{pe}" for pe in range(8)]
    titles = [lane["title"] for lane in found["groups"][3]["lanes"]]
    port = "pe_fetch_store"
    assert titles == ["pe_dma: dma_read", f"{port}: fetch", "pe_gemm: gemm", f"{port}: store", "pe_dma: dma_write"]
    assert (found["from_ps"], found["until_ps"]) == (0, int(asked.log.ops["t_out_ps"].max()))
    (launches,) = asked.get("lanes", table="launches").json["groups"]
    assert [lane["title"] for lane in launches["lanes"]] == ["call to answer", "kernels"]
    assert all(group["name"] == "memories" for group in asked.get("lanes", table="memories").json["groups"])


@pytest.mark.parametrize(
    ("share", "pixels"), [((0.0, 1.0), 37), ((0.31, 0.47), 29), ((0.5, 0.5001), 5), ((0.7, 1.4), 11)]
)
def test_coverage_is_that_of_the_log_in_any_window(asked: Asked, share: tuple[float, float], pixels: int) -> None:
    end = asked.get("lanes", table="ops").json["until_ps"]
    t0, t1 = (round(each * end) for each in share)
    head, (part,) = asked.window(table="ops", lanes=17, t0=t0, t1=t1, pixels=pixels)
    rows = rows_of(asked.log, "sip0.cube0.pe3.pe_gemm", "gemm")
    edges = np.linspace(t0, t1, pixels + 1)
    wanted = [  # every pixel against every service, without a sum on the way
        sum(max(0.0, min(b, end) - max(a, start)) for start, end in rows[["t_start_ps", "t_end_ps"]].tolist()) / (b - a)
        for a, b in pairwise(edges)
    ]
    assert head["texts"][part["kind"][0]] == "gemm"
    assert part["slices"] is None
    assert np.abs(part["cover"] - FULL * np.array(wanted)).max() <= 0.5 + 1e-6
    assert ((part["cover"] > 0) == (np.array(wanted) > 0)).all()


def test_few_slices_are_given_one_by_one_to_the_picosecond(asked: Asked) -> None:
    rows = rows_of(asked.log, "sip0.cube0.pe0.pe_gemm", "gemm")
    rows = rows[np.argsort(rows["t_start_ps"])]
    t0, t1 = int(rows["t_end_ps"][2]), int(rows["t_start_ps"][6])  # between them services 3 to 5, borders left out
    _, (part,) = asked.window(table="ops", lanes=2, t0=t0, t1=t1, pixels=1200)
    assert part["start"].tolist() == rows["t_start_ps"][3:6].tolist()
    assert part["end"].tolist() == rows["t_end_ps"][3:6].tolist()
    found = asked.get("slice", table="ops", lane=2, t=t0).json
    (record,) = rows[3:4]
    waits = {name[5:-3]: int(record[name]) for name in record.dtype.names if name.startswith("wait_") and record[name]}
    assert found["record"]["op"] == record["op_id"]
    assert found["record"]["waits_ps"] == waits
    assert [found["before"], found["after"]] == rows["op_id"][[2, 4]].tolist()
    assert asked.get("slice", op=int(record["op_id"])).json == found
    assert asked.get("edge", table="ops", lane=2, t=t0 + 3, t0=t0, t1=t1).json == {"t_ps": t0}
    begin, end = record["t_start_ps"], record["t_end_ps"]
    assert asked.get("edge", table="ops", lane=2, t=begin + 2, t0=begin + 1, t1=end - 1).json == {"t_ps": None}


def test_the_path_is_one_lane_without_gaps(asked: Asked) -> None:
    (path,) = paths(asked.log)
    end = asked.get("lanes", table="path").json["until_ps"]
    head, (part,) = asked.window(table="path", lanes=0, t0=0, t1=end, pixels=1200)
    assert head["texts"][0] == path.strings[np.bincount(path.block, path.end_ps - path.start_ps).argmax()]
    if part["slices"] is None:
        assert part["cover"].min() == FULL
    else:
        assert part["start"][1:].tolist() == part["end"][:-1].tolist()
    first = asked.get("slice", table="path", lane=0, t=0).json
    assert (first["t0_ps"], first["group"]) == (0, "critical path")


def test_colours_by_path_line_and_command(asked: Asked) -> None:
    on_path = {op for path in paths(asked.log) for op in path.op_id.tolist()}
    end = asked.get("lanes", table="ops").json["until_ps"]
    whole = {"table": "ops", "lanes": "0,1,2,17", "t0": 0, "t1": end, "pixels": 4096}
    head, parts = asked.window(**whole, colour="path")
    assert head["texts"] == ["on the critical path", "beside it"]
    ops = {each["op"]: each for each in asked.get("find", what="pe 0 gemm").json["first"]}
    shown = [(kind == 0) for part in parts if part["lane"] == 2 for kind in part["kind"]]
    assert shown == [op in on_path for op in sorted(ops, key=lambda op: ops[op]["t0_ps"])]
    head, parts = asked.window(**whole, colour="line")
    (line,) = {asked.log.strings[each] for each in np.unique(asked.log.ops["line"])}
    assert head["texts"] == [line]
    head, _ = asked.window(**whole, line="other.py:1")
    assert head["texts"] == ["other.py:1", "other lines"]
    head, parts = asked.window(**whole, colour="command")
    assert len(head["texts"]) == 7
    head, (part,) = asked.window(**{**whole, "table": "path", "lanes": 0, "t1": end // 8}, colour="command")
    (path,) = paths(asked.log)
    commands = dict(zip(asked.log.ops["op_id"].tolist(), asked.log.ops["command_seq"].tolist(), strict=True))
    assert part["slices"] > 1
    assert part["kind"].tolist() == [
        commands[op] % 7 if op >= 0 else head["texts"].index(OTHERS) for op in path.op_id[: part["slices"]].tolist()
    ]


def test_the_search_finds_by_number_stage_line_and_pe(asked: Asked) -> None:
    log = asked.log
    tile = asked.get("find", what="tile 3").json
    assert tile["count"] == (log.ops["tile_id"] == 3).sum()
    gemm = asked.get("find", what="GEMM.py:35 pe 5 store").json
    assert gemm["count"] == len(rows_of(log, "sip0.cube0.pe5.pe_fetch_store", "store"))
    assert gemm["first"] == sorted(gemm["first"], key=lambda each: each["t0_ps"])
    assert asked.get("find", what="op=7").json["first"][0]["op"] == 7
    assert asked.get("find", what="nothing like it").json == {"count": 0, "first": []}


@pytest.mark.parametrize("line", [None, "gemm.py:35"])
def test_sums_of_a_window_equal_the_sums_of_the_log(asked: Asked, line: str | None) -> None:
    end = int(asked.log.ops["t_out_ps"].max())
    t0, t1 = end // 5, end // 2
    found = asked.get("sums", t0=t0, t1=t1, **({} if line is None else {"line": line})).json
    work = {each["title"]: each for each in found["work"]}
    for stage in ("dma_read", "gemm", "store"):
        (title,) = (each for each in work if each.endswith(f": {stage}") and each.startswith("pe_"))
        mine = asked.log.ops[np.array(asked.log.strings)[asked.log.ops["name"]] == stage]
        there = (mine["t_start_ps"] < t1) & (np.maximum(mine["t_end_ps"], mine["t_start_ps"] + 1) > t0)
        busy = np.minimum(mine["t_end_ps"], t1) - np.maximum(mine["t_start_ps"], t0)
        assert (work[title]["slices"], work[title]["busy_ps"]) == (there.sum(), busy[there].sum())
        assert work[title]["lanes"] == 8
    assert found["has_path"]
    parts = [each["ps"] for each in found["path"]]
    assert parts == sorted(parts, reverse=True)
    if line is None:
        assert sum(parts) == t1 - t0, "the path has no gaps"
    else:
        assert asked.get("sums", t0=t0, t1=t1, line="gemm.py:1").json["path"] == []


def test_sums_cut_slices_off_at_the_ends_of_the_window() -> None:
    begins, ends = [0, 10, 20, 20, 5], [10, 15, 20, 40, 9]
    places = [TrackPlace("chip", "first"), TrackPlace("chip", "second")]
    slices = Slices(
        places, np.array([0, 0, 0, 0, 1]), np.array(begins), np.array(ends), np.zeros(5, np.int64), ["a"], {}
    )
    table = LaneTable(slices, ["a"], [""])
    every = np.ones(5, np.bool_)
    for window, busy, count in [
        ((4, 25), [6 + 5 + 0 + 5, 4], [4, 1]),  # the slice without length at 20 counts, and takes no time
        ((10, 20), [5, 0], [1, 0]),
        ((20, 21), [1, 0], [2, 0]),
        ((40, 50), [0, 0], [0, 0]),
    ]:
        found = table.within(*window, every)
        assert (found.busy_ps.tolist(), found.n_slices.tolist()) == (busy, count), window
    only = table.within(4, 25, np.array([True, False, False, False, False]))
    assert (only.busy_ps.tolist(), only.n_slices.tolist()) == ([6, 0], [1, 0])
    empty = LaneTable(Slices([], *(np.empty(0, np.int64),) * 4, [], {}), [], [])
    assert empty.within(0, 1, np.empty(0, np.bool_)).n_slices.tolist() == []


WINDOW = {"table": "ops", "lanes": 0, "t0": 0, "t1": 5, "pixels": 9}


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("window", {"t0": 5}, "t0, t1: got a window without time, 5 to 5 ps, needs an end after the begin"),
        ("window", {"lanes": 99}, "lane: got 99, needs 0 to 39"),
        ("window", {"lanes": "0,x"}, "lanes: got 'x', needs a whole number from 0 to 2147483648"),
        ("window", {"lanes": "0," * 2500}, "lanes: got more than 2000, needs no more than a window shows"),
        ("window", {"pixels": 0}, "pixels: got '0', needs a whole number from 1 to 4096"),
        ("window", {"t0": "1e3"}, f"t0: got '1e3', needs a whole number from 0 to {2**53}"),
        ("window", {"colour": "x"}, "colour: got 'x', needs one of stage, line, command, path"),
        ("lanes", {"table": "../ops"}, "table: got '../ops', needs one of ops, waits, memories, launches, path"),
        ("slice", {"op": 10**9}, "op: got 1000000000, needs an op of the log, 0 to "),
        ("sums", {"t0": 7, "t1": 7}, "t0, t1: got a window without time, 7 to 7 ps, needs an end after the begin"),
        ("find", {"what": "pe" + " " * 20_000}, "search: got 20002 characters, needs at most 200"),
        ("find", {"what": " "}, "search: got nothing, needs a line such as gemm.py:29"),
        ("lanes", {"stamp": "00000000", "table": "ops"}, "gemm-"),
    ],
)
def test_a_wrong_question_gets_a_sentence(asked: Asked, name: str, fields: dict, text: str) -> None:
    found = asked.get(name, **({**WINDOW, **fields} if name == "window" else fields))
    assert found.status == (409 if "stamp" in fields else 400)
    assert found.text.startswith(text)


def test_more_runs_than_are_kept_do_not_make_each_other_old(asked: Asked, tmp_path: Path) -> None:
    """A page may be open on each of them. A run that was written again is another one."""
    folders = [Path(shutil.copytree(asked.folder, tmp_path / f"gemm-{each}")) for each in range(5)]
    with served(tmp_path) as client:
        ids = {each["name"]: each["id"] for each in client.ask("/api/runs").json["runs"]}
        stamps = [client.ask(f"/api/lanes?run={ids[each.name]}&table=ops").json["stamp"] for each in folders]
        assert len(set(stamps)) == len(folders)
        pairs = zip(folders, stamps, strict=True)
        sums = [f"/api/sums?run={ids[each.name]}&stamp={stamp}&t0=0&t1=999" for each, stamp in pairs]
        assert [client.ask(each).status for each in sums * 2] == [200] * 10
        for folder in folders:
            shutil.copy(folder / "run.json", folder / "new")
            (folder / "new").replace(folder / "run.json")
        assert client.ask(sums[0]).status == 409


def test_a_run_whose_log_was_not_kept_says_which_keep_keeps_it(asked: Asked) -> None:
    found = asked.get("lanes", asked.other, table="ops")
    assert found.status == 400
    sentence = "got a run whose op log was not kept (--keep none), needs one; run it again with --keep all"
    said = json.loads(found.text)
    assert said["text"].endswith(sentence)
    command = said["command"]
    assert command.startswith("kb run gemm -p ")
    assert command.endswith(f"--keep all --out {asked.folder.parent}")


def test_a_run_that_died_shows_how_far_it_came(asked: Asked, tmp_path: Path) -> None:
    out = tmp_path / "gemm-0123456789ab-interrupted"
    shutil.copytree(asked.folder, out)
    (out / "run.json").unlink()
    (out / "progress.json").write_text(
        '{"format":"kernbench-progress","version":1,"state":"interrupted","pid":1,"row":null,"rows":null,"phase":"x",'
        '"what":"","elapsed_s":1}'
    )
    manifest = out / "log" / "manifest.json"
    manifest.unlink()
    with served(tmp_path) as client:
        (run,) = client.ask("/api/runs").json["runs"]
        found = client.ask(f"/api/lanes?run={run['id']}&table=ops").json
        assert found["slices"] == asked.log.n_ops
        (note,) = found["notes"]
        assert f"got a log that was cut off: it goes up to {found['until_ps'] / 1000:,.3f} ns" in note
        assert client.ask(f"/api/lanes?run={run['id']}&table=launches").json["groups"] == []
        wanted = "got a run that did not come to its end, needs a complete one; the timeline shows how far it came\n"
        for view in ("overview?", f"compare?with={run['id']}&"):
            whole = client.ask(f"/api/{view}run={run['id']}")
            assert (whole.status, whole.text) == (400, f"{out.name}: {wanted}")


def test_lanes_of_a_million_slices_answer_from_sums() -> None:
    n = 1_000_000
    start = np.arange(n) * 10
    slices = Slices(
        [TrackPlace("a", "x"), TrackPlace("a", "y")],
        np.repeat([0, 1], n // 2),
        start,
        start + 1 + np.arange(n) % 7,
        np.arange(n) % 30,
        [f"s{each % 10} l{each}" for each in range(30)],
        {"op": np.arange(n)},
    )
    table = LaneTable(slices, [f"s{each % 10}" for each in range(30)], [f"l{each}" for each in range(30)])
    kinds = by_words(table, "stage")
    assert kinds.texts[-1] == OTHERS
    assert len(kinds.texts) == 8
    edges = np.linspace(1_234_567, 3_234_567, 101)
    found = table.window(0, edges, kinds, 8)
    wanted = coverage(start[: n // 2], slices.end_ps[: n // 2], edges)
    assert np.abs(found.cover - FULL * wanted).max() <= 0.5 + 1e-6


def test_a_send_and_the_wait_for_it_show_one_message(tmp_path: Path) -> None:
    stencil = ["stencil", "-p", "rows=16", "-p", "width=16", "-p", "pes=4", "--levers", "none"]
    assert CliRunner().invoke(kb, ["run", *stencil, "--out", str(tmp_path)], catch_exceptions=False).exit_code == 0
    (folder,) = tmp_path.iterdir()
    log = read_log(folder / "log")
    timeline = RunTimeline(folder, log, [])
    waits, ops = timeline.table(WAITS), timeline.table(OPS)
    longest = int(np.argmax(waits.busy_ps()))
    message = message_of(timeline, WAITS, longest)
    assert message is not None
    assert message.waited
    assert (message.taken.table, message.taken.t_ps) == (WAITS, message.taken_ps) == (WAITS, waits.end_ps[longest])
    assert waits.lanes[message.taken.lane].group == message.dst
    assert ops.lanes[message.sent.lane] == TrackPlace(message.src, "pe_dma: dma_write")
    (send,) = log.tables["sends"][log.tables["sends"]["t_rung_ps"] == message.rung_ps][:1]
    assert (message.nbytes, message.slot) == (send["nbytes"], send["slot"])
    assert message_of(timeline, OPS, timeline.row_of(message.op)) == message
    arrows = message_arrows(timeline, (0, timeline.end_ps))
    assert arrows.count == len(arrows.first) == (log.tables["sends"]["t_taken_ps"] >= 0).sum()
    assert (message.sent, message.taken) in [(each.sent, each.taken) for each in arrows.first]
    before = message_arrows(timeline, (0, message.rung_ps - 1))
    assert (message.sent, message.taken) not in [(each.sent, each.taken) for each in before.first]
    reads = np.flatnonzero([ops.stages[each] == "dma_read" for each in ops.slices.name])
    assert message_of(timeline, OPS, int(reads[0])) is None
