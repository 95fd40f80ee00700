"""Slow PEs as levers, as changes of a finished run, and as axes of a sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import kernbench as kb
from kb_cli.whatif.chip_levers import chip_levers
from kb_cli.whatif.levers import levers
from kb_topology import SLOW, Topology

Invoke = Callable[..., Result]
GEMM = ("gemm", "-p", "M=256", "-p", "N=512", "-p", "K=256", "-p", "tile=64x64x64")
GEMM_PS = 4 * 4 * (4 * 2) // 8 * (64 + 64 + 64 - 2) * 1000
"""The service of the array of one of 8 PEs: its tiles of 64 x 64 x 64 at 1 GHz."""


def chip(**slow: float) -> Topology:
    return kb.chip("one_cube", {f"$.slow.{pe}": factor for pe, factor in slow.items()})


@pytest.fixture
def run(invoke: Invoke, tmp_path: Path) -> Callable[..., Path]:
    """The folder of a run of GEMM on `one_cube` with slow PEs."""

    def ran(**slow: float) -> Path:
        name = "-".join(f"{pe}-{factor}" for pe, factor in slow.items()) or "usual"
        file = tmp_path / f"{name}.yaml"
        file.write_text(chip(**slow).source.text)
        done = invoke("run", *GEMM, "--topology", file, "--levers", "none", "--out", tmp_path / name)
        assert done.exit_code == 0, done.stderr
        return next((tmp_path / name).iterdir())

    return ran


def slow_levers(topology: Topology) -> list[tuple[str, dict[Any, float], dict[Any, str]]]:
    return [(each.part, dict(each.values), each.better) for each in chip_levers(topology) if each.block == SLOW]


def test_each_key_of_slow_pes_is_a_lever_to_full_speed() -> None:
    assert slow_levers(chip()) == []
    assert slow_levers(chip(pe3=2)) == [("sip0.cube0.pe3", {(SLOW, "pe3"): 2.0}, {(SLOW, "pe3"): "1"})]
    several = kb.chip("one_cube", {"$.slow['pe[0:2]']": 2, "$.slow['pe[2:8]']": 3})
    assert {part for part, _, _ in slow_levers(several)} == {"sip0.cube0.pe0 and sip0.cube0.pe1", "6 slow PEs"}


def test_other_levers_have_the_values_of_the_file() -> None:
    usual, slowed = chip(), kb.chip("one_cube", {"$.slow['pe[*]']": 2})
    assert [each for each in chip_levers(slowed) if each.block != SLOW] == chip_levers(usual)


def test_full_speed_gives_the_time_of_a_chip_without_slow_pes(run: Callable[..., Path]) -> None:
    tried = {each.name: each for each in levers(run(pe3=2)).levers}
    found = tried["Full speed of sip0.cube0.pe3"]
    assert (found.set, found.part) == ({"$.slow.pe3": "1"}, "slow by a factor of 2")
    assert found.latency_ps == levers(run()).latency_ps
    assert all(each.latency_ps is None or each.latency_ps >= each.bound_ps for each in tried.values())


def whatif(invoke: Invoke, folder: Path, *sets: str) -> Any:
    done = invoke("whatif", folder, *(word for each in sets for word in ("--set", each)), "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_what_if_a_pe_were_slow(invoke: Invoke, run: Callable[..., Path]) -> None:
    found = whatif(invoke, run(), "$.slow.pe3=2")
    assert found["set"] == [{"path": "$.slow.pe3", "before": None, "after": 2}]
    (gemm,) = [each for each in found["comparison"]["blocks"] if each["block"] == "pe_gemm"]
    assert gemm["busy_ps"] == [8 * GEMM_PS, 9 * GEMM_PS]
    assert [each["place"] for each in found["comparison"]["configuration"]] == ["$.slow.pe3"]
    back = whatif(invoke, run(pe3=2), "$.slow.pe3=1")
    assert (back["before_ps"], back["latency_ps"]) == (found["latency_ps"], found["before_ps"])
    assert back["bound_ps"] <= back["latency_ps"]


def test_a_pe_that_is_not_there_is_refused(invoke: Invoke, run: Callable[..., Path]) -> None:
    done = invoke("whatif", run(), "--set", "$.slow.pe8=2")
    assert done.exit_code == 2
    needs = "needs PEs from sip0.cube0.pe0 to sip0.cube0.pe7; write one like pe0 or sip[*].cube[0].pe[*]"
    assert f"$.slow.pe8: got 'pe8', {needs}" in done.stderr


def test_a_sweep_over_a_factor_has_no_costs(invoke: Invoke) -> None:
    done = invoke("sweep", *GEMM, "--set", "$.slow.pe3=1,2,4", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["costs"], found["front"]) == ([], [])
    times = [each["latency_ps"] for each in found["configurations"]]
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_a_sweep_over_a_wrong_pe_or_factor_is_refused_at_once(invoke: Invoke) -> None:
    for setting, said in (("$.slow.pe9=1,2", "got 'pe9'"), ("$.slow.pe1=1,0.5", "got 0.5, needs >= 1")):
        done = invoke("sweep", *GEMM, "--set", setting)
        assert done.exit_code == 2
        assert said in done.stderr


def test_runs_on_other_slow_pes_are_compared_by_their_factors(invoke: Invoke, run: Callable[..., Path]) -> None:
    done = invoke("compare", run(pe3=2), run(pe3=2, pe4=3))
    assert done.exit_code == 0, done.stderr
    assert "topology $.slow.pe4: not stated -> 3" in done.stdout


def test_a_capsule_of_a_run_keeps_slow_pes(invoke: Invoke, run: Callable[..., Path], tmp_path: Path) -> None:
    capsule = tmp_path / "a.kbrun"
    assert invoke("pack", run(pe3=2), "-o", capsule).exit_code == 0
    assert json.loads(invoke("replay", capsule, "--json").stdout)["same"] is True
