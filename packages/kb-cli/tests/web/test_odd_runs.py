"""Views of runs that have little to show: without services, and with logs without some tables."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import numpy as np
import pytest
from click.testing import Result
from web_client import served

from kb_cli.benchmark import bundled
from kb_cli.run.records.run_loads import read_loads
from kb_cli.web.answers.timeline import found_slices
from kb_cli.web.lazy_parts import LazyParts
from kb_cli.web.run_timeline import RunTimeline
from kb_cli.web.stall_groups import stall_groups
from kb_cli.web.stall_tables import Stalls
from kb_dataexec import OpLog, read_log
from kb_messages import KbError, LogError

Invoke = Callable[..., Result]
Write = Callable[..., Path]
KERNEL = '    tl.wait(tl.composite("gemm", a, b, out=c))'
EVERY = ["overview", "of_log", "levers", "source", "roofline", "stalls", "topology", "find?what=gemm"]
EVERY += [f"lanes?table={table}" for table in ("ops", "memories", "launches", "path")]


def test_a_run_without_services_has_every_view(invoke: Invoke, bench_file: Write, tmp_path: Path) -> None:
    idle = bench_file(KERNEL, "    pass")
    done = invoke("run", idle, "--no-verify", "--out", tmp_path / "runs")
    assert (done.exit_code, done.stderr) == (0, "")
    with served(tmp_path / "runs") as client:
        (run,) = client.ask("/api/runs").json["runs"]
        for name in EVERY:
            found = client.ask(f"/api/{name}{'&' if '?' in name else '?'}run={run['id']}")
            assert found.status == 200, (name, found.text)


def test_views_that_need_rows_refuse_a_log_too_large_for_the_memory(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("run", "gemm", "-p", "M=24", "-p", "N=16", "-p", "K=8", "--levers", "none", "--out", tmp_path)
    monkeypatch.setattr("kb_dataexec.log.reader._memory_nbytes", lambda: 0)
    with served(tmp_path) as client:
        (run,) = client.ask("/api/runs").json["runs"]
        found = {name: client.ask(f"/api/{name}{'&' if '?' in name else '?'}run={run['id']}") for name in EVERY}
    refused = {name for name, each in found.items() if each.status != 200}
    assert refused == {name for name in EVERY if name.startswith(("lanes", "stalls", "find", "topology"))}
    sentence = "GiB of rows or more, needs at most half of the 0.0 GiB of this machine's memory"
    assert all(found[name].status == 400 and sentence in found[name].text for name in refused)
    assert sentence in found["of_log"].text
    assert sentence not in found["overview"].text, "the first part of the overview needs no log"


def test_a_log_of_an_older_version_names_the_parts_it_lacks(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", "gemm", "-p", "M=24", "-p", "N=16", "-p", "K=8", "--levers", "none", "--out", tmp_path)
    (folder,) = tmp_path.glob("gemm-*")
    whole = read_log(folder / "log")
    timeline = RunTimeline(folder, OpLog(whole.ops, whole.operands, whole.strings, whole.immediates, tables={}), [])
    assert timeline.notes == [
        f"{folder}: got a log without the table kernels, so the critical path is left out",
        f"{folder}: got a log without the table transfers, so the service of memories is left out",
    ]
    assert len(timeline.table("ops").slices.track) == whole.n_ops
    for table in ("path", "memories"):
        with pytest.raises(LogError, match=r"got no table "):
            timeline.table(table)
    stalls = Stalls(timeline)
    which = stalls.which(None, None, None)
    spent = sum(sum(row.ps.values()) for row in stalls.rows(which))
    assert spent == int((whole.ops["t_out_ps"] - whole.ops["t_ready_ps"]).sum())
    assert {each.holder for group in stall_groups(stalls, which).groups for each in group.waits} <= {None}
    assert found_slices(timeline, "gemm").count == (np.array(whole.strings)[whole.ops["name"]] == "gemm").sum()


def test_who_asks_for_one_part_does_not_wait_for_another() -> None:
    parts, order = LazyParts(), list[str]()

    def slow() -> str:
        last = monotonic() + 10
        while "quick" not in order and monotonic() < last:
            sleep(0.005)
        order.append("slow")
        return "slow"

    threads = [Thread(target=parts.part, args=("slow", slow)) for _ in range(3)]
    for each in threads:
        each.start()
    parts.part("quick", lambda: order.append("quick"))
    for each in threads:
        each.join()
    assert order == ["quick", "slow"]
    assert parts.part("slow", lambda: "never") == "slow"


def test_an_error_of_a_part_is_raised_for_each_who_asks() -> None:
    def fail() -> None:
        raise KbError("here", "x", "y")

    parts = LazyParts()
    for _ in range(2):
        with pytest.raises(KbError, match=r"^here: got x, needs y$"):
            parts.part("bad", fail)


def test_a_whole_run_on_a_multicast_chip_has_the_shares_that_the_run_counted(invoke: Invoke, tmp_path: Path) -> None:
    chip = tmp_path / "multicast.yaml"
    plain = bundled.find("topologies", "one_cube").read_text(encoding="utf-8")
    chip.write_text(plain.replace("\ncube:\n", "\nmulticast: {receivers: 8}\ncube:\n"), encoding="utf-8")
    sizes = ["-p", "M=128", "-p", "N=128", "-p", "K=128", "-p", "operands=one_slice", "--no-verify", "--keep", "all"]
    done = invoke("run", "gemm", *sizes, "--levers", "none", "--topology", chip, "--out", tmp_path / "runs")
    assert (done.exit_code, done.stderr) == (0, "")
    (folder,) = (tmp_path / "runs").glob("gemm-*")
    _, loads = read_loads(folder)
    with served(tmp_path / "runs") as client:
        (run,) = client.ask("/api/runs").json["runs"]
        whole = client.ask(f"/api/topology?run={run['id']}").json
        asked = f"/api/topology?run={run['id']}&t0={whole['t0_ps']}&t1={whole['t1_ps']}"
        window = client.ask(asked).json
    loaded = {f"{src} -> {dst}": load for (src, dst), load in loads.links.items()} | dict(loads.nodes)
    found = {each["name"]: each for each in whole["parts"]}
    for name, each in found.items():
        assert (each["share"], each["nbytes"]) == (loaded[name].utilization, loaded[name].nbytes)
    assert set(found) == {each["name"] for each in window["parts"]}
    assert whole["notes"] == []
    counts_each = [each["nbytes"] / found[each["name"]]["nbytes"] for each in window["parts"]]
    assert max(counts_each) > 1.5
    (note,) = window["notes"]
    assert note.startswith("Where one read answers several PEs, bytes and shares count it once for each of them")
