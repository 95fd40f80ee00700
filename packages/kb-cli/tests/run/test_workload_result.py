"""The ops of a workload and the time of its model, by hand from the launches of the run."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chain_workload import run_chain, write_chain
from click.testing import Result

from kb_cli.run.base.workload_result import OpBound, OpResult, alike_ops
from kb_cli.run.observe.bounded_by import workload_bounded_by

Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chain")


@pytest.fixture
def result(invoke: Invoke, place: Path) -> dict[str, Any]:
    return run_chain(invoke, place)


def ps(ns: float) -> int:
    return round(ns * 1000)


def test_ops_have_the_times_of_their_launches_and_the_gaps_before_them(result: dict[str, Any]) -> None:
    launches = [{key: ps(each[key]) for key in ("call_ns", "start_ns", "end_ns")} for each in result["launches"]]
    latency = [each["end_ns"] - each["start_ns"] for each in launches]
    gap = [b["start_ns"] - a["end_ns"] for a, b in pairwise(launches)]
    first = launches[0]["start_ns"] - launches[0]["call_ns"]
    ops = {op["name"]: op for op in result["workload_ops"]}
    assert list(ops) == ["layer.scale", "layer.product", "head"]
    assert ops["layer.scale"]["latency_ps"] == latency[0] + latency[1]
    assert ops["layer.scale"]["gap_ps"] == first + gap[0]
    assert (ops["layer.product"]["latency_ps"], ops["layer.product"]["gap_ps"]) == (latency[2], gap[1])
    assert (ops["head"]["latency_ps"], ops["head"]["gap_ps"]) == (latency[3], gap[2])
    assert [op["part"] for op in ops.values()] == ["layer", "layer", "head"]
    assert result["latency_ps"] == sum(latency)


def test_shares_of_the_rooflines_count_what_the_algorithm_needs(result: dict[str, Any]) -> None:
    product = result["workload_ops"][1]
    seconds = product["latency_ps"] / 1e12
    assert product["memory_share"] == pytest.approx(3 * 16 * 16 * 4 / 102.4e9 / seconds, rel=1e-12)
    assert product["compute_share"] == pytest.approx(2 * 16**3 / result["peak_flops"] / seconds, rel=1e-12)
    assert result["peak_flops"] == 2 * 64 * 64 / 4 * 1e9  # two for each MAC of the array, at 1 GHz; f32 has a quarter


def test_the_bound_of_an_op_is_the_largest_part_of_its_own_path(result: dict[str, Any], place: Path) -> None:
    where = json.loads((Path(result["run_dir"]) / "where.json").read_text())
    rows = [row for row in where["launches"][2]["rows"] if row["via"] not in ("launch", "answer")]
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        sums[row["block"], row["what"]] = sums.get((row["block"], row["what"]), 0) + row["ps"]
    (block, what), most = max(sums.items(), key=lambda each: each[1])
    bound = result["workload_ops"][1]["bound"]
    assert (bound["block"], bound["what"]) == (block, what)
    assert bound["share"] == pytest.approx(most / result["workload_ops"][1]["latency_ps"], rel=1e-12)


def test_the_model_counts_each_op_and_its_gaps_as_often_as_it_stands_in_the_model(result: dict[str, Any]) -> None:
    scale, product, head = result["workload_ops"]
    model = result["model"]
    answer_ps = ps(result["launches"][-1]["response_ns"]) - ps(result["launches"][-1]["end_ns"])
    assert model["kernels_ps"] == 4 * (scale["latency_ps"] + product["latency_ps"]) + head["latency_ps"]
    assert model["gaps_ps"] == 4 * (scale["gap_ps"] + product["gap_ps"]) + head["gap_ps"] + 4 * answer_ps
    assert model["total_ps"] == model["kernels_ps"] + model["gaps_ps"]
    assert model["items_per_s"] == pytest.approx(5 / model["total_ps"] * 1e12, rel=1e-12)
    assert model["floor_nbytes"] == 4 * 16 * 16 * 4
    assert model["floor_ps"] == 40_000  # 4096 bytes at 102.4 GB/s
    assert [(part["name"], part["repeats"], part["ops"]) for part in model["parts"]] == [
        ("layer", 4, 2),
        ("head", 1, 1),
    ]


def test_a_model_of_equal_repeats_takes_as_many_times_the_run(invoke: Invoke, place: Path) -> None:
    found = run_chain(invoke, place, "-p", "layers=1", "-p", "phase=pass")
    assert found["model"]["total_ps"] == ps(found["whole_ns"])
    assert found["model"]["phase"] == "pass"


def test_the_tables_name_ops_parts_and_the_step(invoke: Invoke, place: Path) -> None:
    done = invoke("run", write_chain(place), "--topology", "one_pe", "--out", place / "runs", "--levers", 0)
    assert done.exit_code == 0, done.output
    lines = [line.split("  ")[0] for line in done.stdout.splitlines()]
    for name in ("step", "floor", "layer.scale", "head", "gaps between launches", "linear", "answers to the host"):
        assert name in lines
    assert "of weights and caches once through all HBM" in done.stdout
    shares = done.stdout.split("op  ", 1)[1].split("\n\n")[0].splitlines()[2:]
    total = sum(float(line.split(" %")[0].split()[-1]) for line in shares)
    assert total == pytest.approx(100, abs=0.3)
    ops = done.stdout.split("\n\n")
    assert max(len(line) for table in ops if table.startswith("op ") for line in table.splitlines()) <= 100


def test_a_wrong_op_is_named_and_the_others_are_right(invoke: Invoke, place: Path) -> None:
    done = invoke(
        "run", write_chain(place), "--topology", "one_pe", "--out", place / "runs", "-p", "wrong=true", "--levers", 0
    )
    assert done.exit_code == 1
    assert "1 of 3 outputs wrong (head)" in done.stdout


def test_a_step_of_another_kind_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    file = write_chain(tmp_path)
    file.write_text(
        file.read_text().replace("WorkloadStep(phase=p.phase, items=5)", "WorkloadStep(phase='pass', items=0)")
    )
    done = invoke("run", file, "--topology", "one_pe", "--out", tmp_path / "runs")
    assert done.exit_code == 2
    assert "got 0 items, needs a WorkloadStep of 1 item or more" in done.stderr


def op(name: str, latency_ps: int, repeats: int = 1) -> OpResult:
    return OpResult(
        name=name, part=name, kind="k", repeats=repeats, first_launch=0, end_launch=1, latency_ps=latency_ps, gap_ps=0,
        flops=5, nbytes=6, floor_nbytes=0, compute_share=None, memory_share=None,
        bound=OpBound(block="hbm", what="bytes", share=0.5),
    )  # fmt: skip


def test_ops_of_equal_blocks_are_told_together() -> None:
    ops = [op("block0.up", 3000, 16), op("head", 40_000), op("block1.up", 3000, 16)]
    first, second = alike_ops(ops)
    assert (first.text, first.repeats, first.model_ps) == ("block0.up and 1 like it", 32, 96_000)
    assert (second.text, second.model_ps) == ("head", 40_000)
    assert workload_bounded_by(ops, "") == (
        "block0.up and 1 like it are 70.6 % of the kernels of the model, 32 x 3.000 ns, and HBM's bytes are 50.0 % of "
        "their time; head comes next with 29.4 %."
    )
    assert workload_bounded_by([], "Nothing was measured.") == "Nothing was measured."
