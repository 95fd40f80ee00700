"""Perfetto's own page opens a trace, and its SQL engine counts slices and adds up their times as the op log does."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Locator, Page

from kb_cli.main import kb
from kb_cli.run.base.files import TOPOLOGY
from kb_cli.trace.traffic import traffic
from kb_cli.trace.viewer import ViewerServer, page_folder
from kb_cli.trace.window import parse_window
from kb_dataexec import OpLog, read_log
from kb_dataexec.analysis import memory_spans, paths
from kb_topology import load_topology

QUERY = """async (sql) => {
    const found = await window.app.trace.engine.query(sql);
    const names = found.columns(), rows = [];
    for (const row = found.iter({}); row.valid(); row.next()) {
        rows.push(names.map((name) => typeof row.get(name) === "bigint" ? Number(row.get(name)) : row.get(name)));
    }
    return rows;
}"""
PER_TRACK = """
    select parent.name, track.name, count(*), sum(slice.dur), min(slice.ts), max(slice.ts + slice.dur)
    from slice join track on slice.track_id = track.id join track parent on track.parent_id = parent.id
    where parent.name != 'launches' group by 1, 2 order by 1, 2
"""
Sql = Callable[[str], list[list[Any]]]


def run_kb(*args: object) -> str:
    done = CliRunner().invoke(kb, [str(arg) for arg in args], catch_exceptions=False)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on eight PEs whose sizes do not divide into tiles."""
    sizes = ["-p", "M=200", "-p", "N=136", "-p", "K=72", "-p", "tile=32x16x24"]
    out = tmp_path_factory.mktemp("runs")
    return Path(json.loads(run_kb("run", "gemm", *sizes, "--out", out, "--json"))["run_dir"])


@contextmanager
def opened(page: Page, trace: Path) -> Iterator[Sql]:
    """The page with *trace*, as `kb trace --open` shows it; asks it in SQL."""
    with ViewerServer(page_folder(), trace) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers: list[str] = []
        page.on("response", lambda response: answers.append(response.url))
        page.goto(server.address)
        last = monotonic() + 60
        while not page.evaluate("!!window.app?.trace"):
            assert monotonic() < last, "the page did not open the trace"
            page.wait_for_timeout(100)
        yield lambda sql: page.evaluate(QUERY, sql)
        assert f"http://{server.host}{server.trace_path}" in answers
        assert [each for each in answers if not each.startswith((f"http://{server.host}/", "data:", "blob:"))] == []
        server.shutdown()


def per_track(log: OpLog, unit_ps: int) -> list[list[Any]]:
    """What PER_TRACK asks, from the log."""
    spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in log.ops:
        pe, _, block = log.strings[row["component"]].rpartition(".")
        place = pe, f"{block}: {log.strings[row['name']]}"
        spans.setdefault(place, []).append((int(row["t_start_ps"]), int(row["t_end_ps"])))
    for path in paths(log):
        for pe, start, end in zip(path.pe.tolist(), path.start_ps.tolist(), path.end_ps.tolist(), strict=True):
            if path.strings[pe]:
                spans.setdefault((path.strings[pe], "critical path"), []).append((start, end))
    for _, memory, start, end in memory_spans(log).tolist():
        spans.setdefault(("memories", f"{log.strings[memory]}: served"), []).append((start, end))
    units = {place: [(start // unit_ps, end // unit_ps) for start, end in each] for place, each in spans.items()}
    return sorted(
        [*place, len(each), sum(end - start for start, end in each), min(each)[0], max(end for _, end in each)]
        for place, each in units.items()
    )


@pytest.mark.parametrize(
    ("name", "unit", "unit_ps"), [("x.pftrace", "ns", 1000), ("x.pftrace.gz", "ns", 1000), ("x.pftrace", "ps", 1)]
)
def test_its_sql_engine_counts_as_the_log_does(
    page: Page, folder: Path, tmp_path: Path, name: str, unit: str, unit_ps: int
) -> None:
    log = read_log(folder / "log")
    run_kb("trace", folder, "-o", tmp_path / name, "--unit", unit)
    with opened(page, tmp_path / name) as sql:
        wanted = per_track(log, unit_ps)
        assert sql(PER_TRACK) == wanted
        n_slices = sum(n for _, _, n, *_ in wanted) + 2
        assert sql("select count(*), sum(dur < 0), sum(depth) from slice") == [[n_slices, 0, 0]]
        assert sql("select name, value from stats where severity != 'info' and value > 0") == []
        counters = traffic(log, load_topology(folder / TOPOLOGY), parse_window(None, None), None)
        assert sql("select count(*), round(sum(value), 6) from counter") == [
            [len(counters.value), round(float(counters.value.sum()), 6)]
        ]
        assert sql("select distinct unit from counter_track") == [["%"]]
        ((title,),) = sql("select name from track where parent_id is null")
        assert title == f"kernbench gemm on one_cube{', 1 ns shown is 1 ps' if unit == 'ps' else ''}"
        asked = "select slice.name, slice.ts, args.key, args.int_value from slice join args using (arg_set_id)"
        found = sql(f"{asked} where slice.name like 'gemm %' order by 2, 3, 4")
        records = [row for row in log.ops if log.strings[row["name"]] == "gemm"]
        rows = [
            [f"gemm {log.strings[row['line']]}", int(row["t_start_ps"]) // unit_ps, f"debug.{key}", int(row[column])]
            for row in records
            for key, column in (("op", "op_id"), ("command", "command_seq"), ("tile", "tile_id"))
        ]
        assert found == sorted(rows, key=lambda row: row[1:])


def test_pes_and_their_servers_are_drawn_in_order(page: Page, folder: Path, tmp_path: Path) -> None:
    run_kb("trace", folder, "-o", tmp_path / "x.pftrace")
    with opened(page, tmp_path / "x.pftrace"):
        title(page, "kernbench gemm on one_cube").click(force=True)
        check_order(page, [*(f"sip0.cube0.pe{pe}" for pe in range(8)), "memories", "links", "launches"])
        title(page, "sip0.cube0.pe0").click(force=True)
        port = "pe_fetch_store"
        servers = ["pe_dma: dma_read", f"{port}: fetch", "pe_gemm: gemm", f"{port}: store", "pe_dma: dma_write"]
        check_order(page, ["sip0.cube0.pe0", "critical path", *servers, "sip0.cube0.pe1"])
        title(page, "sip0.cube0.pe0").click(force=True)
        title(page, "memories").click(force=True)
        served = [f"sip0.cube0.hbm{number}: served" for number in range(8)]
        check_order(page, ["memories", *served, "sip0.cube0.hbm0", "sip0.cube0.hbm7", "links"])


def test_arrows_lead_from_sends_to_messages(page: Page, tmp_path: Path) -> None:
    stencil = ["stencil", "-p", "rows=16", "-p", "width=16", "-p", "pes=4"]
    folder = Path(json.loads(run_kb("run", *stencil, "--out", tmp_path, "--json"))["run_dir"])
    run_kb("trace", folder, "-o", tmp_path / "x.pftrace", "--unit", "ps")
    sends = read_log(folder / "log").tables["sends"]
    with opened(page, tmp_path / "x.pftrace") as sql:
        ends = """select begun.name like 'dma_write %', ended.ts, track.name
            from flow join slice begun on flow.slice_out = begun.id join slice ended on flow.slice_in = ended.id
            join track on ended.track_id = track.id order by ended.ts"""
        assert sql(ends) == [[1, ps, "messages"] for ps in sorted(sends["t_taken_ps"].tolist())]
        assert sql("select name from stats where name like 'flow_%' and value > 0") == []


def title(page: Page, text: str) -> Locator:
    """The title of a track, over which the page lays a shortened one."""
    return page.locator(".pf-track__title-popup", has_text=re.compile(f"^{re.escape(text)}$"))


def check_order(page: Page, titles: list[str]) -> None:
    title(page, titles[-1]).wait_for()
    tops = [title(page, each).bounding_box()["y"] for each in titles]
    assert tops == sorted(set(tops))
