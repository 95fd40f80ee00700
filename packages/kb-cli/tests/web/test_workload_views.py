"""The views of `kb web`, the page and the trace of a workload's run: its ops by name, and its model."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chain_workload import run_chain
from click.testing import Result
from web_client import Client, served

from kb_cli.run.base.result import LaunchTimes
from kb_cli.run.base.workload_result import OpResult
from kb_cli.trace.slices import launch_slices

Invoke = Callable[..., Result]


@pytest.fixture
def run(invoke: Invoke, tmp_path: Path) -> Path:
    return Path(run_chain(invoke, tmp_path)["run_dir"])


@pytest.fixture
def client(run: Path) -> Iterator[Client]:
    with served(run.parent) as found:
        yield found


def ask(client: Client, name: str, **fields: object) -> Any:
    (run,) = client.ask("/api/runs").json["runs"]
    given = "&".join(f"{field}={value}" for field, value in {"run": run["id"], **fields}.items())
    return client.ask(f"/api/{name}?{given}")


def test_the_overview_has_the_tables_of_the_report(client: Client, invoke: Invoke, run: Path) -> None:
    found = ask(client, "overview").json
    assert [each["title"] for each in found["tables"]] == ["Ops", "Work of the ops", "Kinds of ops", "The model"]
    ops = found["tables"][0]["rows"]
    assert [row[0] for row in ops] == ["layer.scale", "layer.product", "head", "gaps between launches"]
    assert [name for name, _ in found["model"]] == ["step", "rate", "over the floor"]
    invoke("report", run, "-o", "x.html")
    page = Path("x.html").read_text(encoding="utf-8")
    for row in ops:
        assert all(f">{cell}<" in page for cell in row if cell)
    assert "<h2>The model</h2>" in page


def test_the_lane_of_ops_covers_the_kernels_of_each_op(client: Client, run: Path) -> None:
    (group,) = ask(client, "lanes", table="launches").json["groups"]
    lanes = {each["title"]: each["lane"] for each in group["lanes"]}
    assert list(lanes) == ["call to answer", "kernels", "ops"]
    result = json.loads((run / "run.json").read_text())["results"]
    times = [(each["start_ns"] * 1000, each["end_ns"] * 1000) for each in result["launches"]]
    for name, first, last in (("layer.scale", 0, 1), ("layer.product", 2, 2), ("head", 3, 3)):
        start, end = round(times[first][0]), round(times[last][1])
        shown = ask(client, "slice", table="launches", lane=lanes["ops"], t=(start + end) // 2).json
        assert (shown["name"], shown["t0_ps"], shown["t1_ps"]) == (name, start, end)


def test_a_trace_has_the_names_of_the_ops(invoke: Invoke, run: Path) -> None:
    done = invoke("trace", run, "-o", "x.pftrace")
    assert done.exit_code == 0, done.output
    data = Path("x.pftrace").read_bytes()
    assert all(name in data for name in (b"layer.scale", b"layer.product", b"head"))


def test_ops_whose_launches_overlap_share_no_moment() -> None:
    def launch(start_ns: float, end_ns: float) -> LaunchTimes:
        times = {"start_ns": start_ns, "end_ns": end_ns, "call_ns": start_ns, "response_ns": end_ns}
        return LaunchTimes(pes=1, late_pes=0, late_ns=0.0, **times)

    def op(name: str, first: int, end: int) -> OpResult:
        return OpResult(
            name=name, part=name, kind="k", repeats=1, first_launch=first, end_launch=end, latency_ps=1, gap_ps=0,
            flops=0, nbytes=0, floor_nbytes=0, compute_share=None, memory_share=None, bound=None,
        )  # fmt: skip

    launches = [launch(0, 10), launch(4, 12), launch(5, 11), launch(13, 14)]
    ops = [op("a", 0, 1), op("b", 1, 2), op("hidden", 2, 3), op("none", 3, 3), op("c", 3, 4)]
    slices = launch_slices(launches, ops)
    mine = [
        (slices.names[name], start, end)
        for track, name, start, end in zip(
            slices.track.tolist(), slices.name.tolist(), slices.start_ps.tolist(), slices.end_ps.tolist(), strict=True
        )
        if track == 2
    ]
    assert mine == [("a", 0, 10_000), ("b", 10_000, 12_000), ("c", 13_000, 14_000)]
