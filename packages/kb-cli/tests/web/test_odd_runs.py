"""Views of runs that have little to show: without services, and with logs that do not tell everything."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import numpy as np
import pytest
from click.testing import Result
from web_client import served

from kb_cli.web.lazy_parts import LazyParts
from kb_cli.web.run_timeline import RunTimeline
from kb_cli.web.slice_search import found_slices
from kb_cli.web.stall_tables import Stalls
from kb_dataexec import OpLog, read_log
from kb_messages import KbError, LogError

Invoke = Callable[..., Result]
Write = Callable[..., Path]
KERNEL = '    tl.wait(tl.composite("gemm", a, b, out=c))'
EVERY = ["overview", "levers", "source", "roofline", "stalls", "topology", "find?what=gemm"]
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


def test_a_log_of_an_older_version_says_what_it_cannot_tell(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", "gemm", "-p", "M=24", "-p", "N=16", "-p", "K=8", "--out", tmp_path)
    (folder,) = tmp_path.glob("gemm-*")
    whole = read_log(folder / "log")
    timeline = RunTimeline(folder, OpLog(whole.ops, whole.operands, whole.strings, whole.immediates, tables={}), [])
    assert timeline.notes == [
        f"{folder}: got a log without the table kernels, so the critical path is left out",
        f"{folder}: got a log without the table transfers, so what memories served is left out",
    ]
    assert len(timeline.table("ops").slices.track) == whole.n_ops
    for table in ("path", "memories"):
        with pytest.raises(LogError, match=r"got no table "):
            timeline.table(table)
    stalls = Stalls(timeline)
    which = stalls.which(None, None, None)
    spent = sum(sum(row.ps.values()) for row in stalls.rows(which))
    assert spent == int((whole.ops["t_out_ps"] - whole.ops["t_ready_ps"]).sum())
    assert {each.holder for each in stalls.worst(which)} <= {None}
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
