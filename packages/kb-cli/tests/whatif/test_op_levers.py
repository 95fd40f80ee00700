"""Levers of ops: the gain of each op in a run of the whole workload, and bounds for ops without a measured gain."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from chain_workload import run_chain
from click.testing import Result
from msgspec import UNSET

from kb_cli.run.base.files import folder_path
from kb_cli.run.base.workload_result import OpLever, OpResult
from kb_cli.whatif.known_levers import known_levers
from kb_cli.whatif.lever_chances import TriedLever
from kb_cli.whatif.levers import levers
from kb_cli.whatif.op_levers import first_levers, with_op_levers

Invoke = Callable[..., Result]


def op(latency_ps: int) -> OpResult:
    return OpResult(
        name="a", part="a", kind="k", repeats=1, first_launch=0, end_launch=1, latency_ps=latency_ps, gap_ps=0, flops=0,
        nbytes=0, floor_nbytes=0, compute_share=None, memory_share=None, bound=None,
    )  # fmt: skip


def tried(
    label: str, bounds: list[int], ops_ps: list[int] | None = None, places: int = 1, is_loose: bool = False
) -> TriedLever:
    changed = {f"$.{number}": "1" for number in range(places)}
    return TriedLever(
        name=label, label=label, block="hbm", field="x", set=changed, path_ps=1, share=0.5, bound_ps=1,
        is_loose=is_loose, op_bounds_ps=bounds, ops_ps=UNSET if ops_ps is None else ops_ps,
    )  # fmt: skip


def found(*given: TriedLever) -> list[OpLever]:
    return [each.lever for each in with_op_levers([op(1000), op(200)], given)]


def test_an_op_has_the_lever_that_gains_most_for_it() -> None:
    both = found(tried("fast", [1, 1], [600, 199]), tried("wide", [1, 1], [800, 100]))
    assert both == [
        OpLever(change="fast", gain=0.4, basis="measured"),
        OpLever(change="wide", gain=0.5, basis="measured"),
    ]


def test_a_set_of_levers_needs_to_gain_more_than_its_part() -> None:
    assert found(tried("both", [1, 1], [595, 90], places=2), tried("one", [1, 1], [600, 110]))[0].change == "one"
    assert found(tried("both", [1, 1], [595, 90], places=2), tried("one", [1, 1], [600, 110]))[1].change == "both"


def test_a_bound_stands_where_nothing_that_was_measured_gains() -> None:
    first, second = found(tried("fast", [1, 1], [999, 150]), tried("wide", [700, 10]))
    assert first == OpLever(change="wide", gain=pytest.approx(0.3), basis="at best")
    assert second == OpLever(change="fast", gain=0.25, basis="measured")
    assert found(tried("fast", [995, 199]))[0] is UNSET


def test_a_loose_bound_promises_nothing() -> None:
    slots = tried("slots", [1, 1], is_loose=True)
    assert found(slots, tried("wide", [700, 199])) == [
        OpLever(change="wide", gain=pytest.approx(0.3), basis="at best"),
        UNSET,
    ]
    assert first_levers([slots, tried("wide", [5, 9])]) == {1}
    assert found(tried("slots", [1, 1], [500, 200], is_loose=True))[0].basis == "measured"


def test_the_best_bound_of_each_op_is_measured_first() -> None:
    assert first_levers([tried("a", [5, 9]), tried("b", [6, 3]), tried("c", [5, 4])]) == {0, 1}
    assert first_levers([]) == set()


def test_times_of_a_lever_count_each_op_as_often_as_the_model_has_it(invoke: Invoke, tmp_path: Path) -> None:
    result = run_chain(invoke, tmp_path, "-p", "context=64")
    ops = {each["name"]: each for each in result["workload_ops"]}
    measured = levers(result["run_dir"]).levers
    assert measured
    assert all(each.latency_ps is not None for each in measured)
    for each in measured:
        scale, product, head = each.ops_ps
        assert each.latency_ps == 4 * (scale + product) + head
        if "GEMM" not in each.label:  # with another array the chip chooses another tile, whose time no path bounds
            assert each.op_bounds_ps[1] <= product <= ops["layer.product"]["latency_ps"]
            assert each.bound_ps <= each.latency_ps
    assert known_levers(folder_path(result["run_dir"])).latency_ps == result["model"]["kernels_ps"]
    fast = next(each for each in measured if each.label == "HBM bandwidth x2")
    changed = next(iter(fast.set.items()))
    again = invoke("whatif", result["run_dir"], "--set", "=".join(changed), "--json")
    scale, product, head = fast.ops_ps
    assert json.loads(again.stdout)["latency_ps"] == scale + product + head


def test_the_report_of_a_folder_has_the_levers_of_its_ops(invoke: Invoke, tmp_path: Path) -> None:
    result = run_chain(invoke, tmp_path, "-p", "context=64", "--levers", "9")
    assert all("lever" in each for each in result["workload_ops"])
    done = invoke("report", result["run_dir"])
    assert done.exit_code == 0, done.stderr
    assert "in the kernels of the model" in done.stdout
    assert "first lever" in done.stdout
    shown = json.loads(invoke("report", result["run_dir"], "--json").stdout)
    assert shown["workload_ops"] == result["workload_ops"]
    assert shown["sentence"].startswith("layer.")
