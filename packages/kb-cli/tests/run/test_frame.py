"""The frame of a latency: PEs, issue, copies, and the times that the latency leaves out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import Result
from msgspec.structs import replace

import kernbench as kb
from kb_cli.run.base.frame_text import conditions, frame_text
from kb_cli.run.base.result import RunResult

Invoke = Callable[..., Result]
ISSUE = "$.cube.pe_template.nodes.pe_cpu.issue"
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def own_row(tl: Any, x: Any, y: Any) -> None:
    at = tl.program_id()
    tl.store(y[at : at + 1, :], tl.load(x[at : at + 1, :]))


def whole(tl: Any, x: Any, y: Any) -> None:
    if tl.program_id() == 0:
        tl.store(y, tl.load(x))


def result(chip: Any, kernel: Any = own_row, **options: Any) -> RunResult:
    return kb.run(kernel, X, kb.empty(X.shape, "f32"), chip=chip, compute=False, **options).result


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({}, 8),
        ({"pes": [5, 1, 2], "kernel": whole}, 3),
        ({"grid": 3, "kernel": whole}, 3),
        ({"grid": 3, "kernel": whole, "pes": [6, 7]}, 2),
        ({"grid": (2, 2, 2)}, 8),
        ({"grid": 4, "schedule": "static", "kernel": whole, "pes": [0, 3]}, 2),
    ],
)
def test_a_pe_is_used_when_it_ran_a_program(options: dict[str, Any], used: int) -> None:
    """A grid of three programs begins on three PEs, although all eight are targets of the launch."""
    frame = result("one_cube", **options).frame
    assert (frame.pes_used, frame.pes) == (used, 8)


@pytest.mark.parametrize("issue", ["blocking", "scoreboard", "decoupled"])
def test_the_frame_names_the_issue_of_the_pes_that_were_used(issue: str) -> None:
    found = result(kb.chip("one_cube", {ISSUE: issue}))
    assert frame_text(found) == f"8 of 8 PEs; {issue} issue; no host on this chip, so uploads take no time"


def test_the_frame_names_the_slow_pes_that_were_used() -> None:
    chip = kb.chip("one_cube", {"$.slow.pe3": 2, "$.slow['pe[5:8]']": 1.25, "$.slow.pe0": 1})
    found = result(chip)
    assert found.frame.slow == {f"sip0.cube0.pe{pe}": 2.0 if pe == 3 else 1.25 for pe in (3, 5, 6, 7)}
    slow = ", ".join(f"sip0.cube0.pe{pe} by 1.25" for pe in (5, 6, 7))
    assert frame_text(found).startswith(f"8 of 8 PEs; slow PEs: sip0.cube0.pe3 by 2, {slow}; blocking issue;")
    assert "slow" not in json.loads(msgspec.json.encode(result(chip, whole, pes=[0, 1, 2]).frame))


def test_start_up_is_left_out_and_said() -> None:
    """Each of two launches begins 1500 ns after its call; the latency counts neither."""
    found = result(kb.chip("one_cube", {"$.cube.pe_template.nodes.pe_cpu.startup_ns": 1500}))
    assert "; without start-up (1.500 us); no host on this chip, so uploads take no time" in frame_text(found)
    assert found.latency_ps == result("one_cube").latency_ps
    assert conditions([found, found]).startswith("blocking issue; without start-up (3.000 us);")


def test_the_times_of_a_host_are_said() -> None:
    """The way of a launch on one_sip is 660.918 ns to all PEs (see tests_integration/test_host_path.py)."""
    found = result("one_sip", whole, pes="all")
    assert found.host is not None
    upload = f"{found.host.write_ns:.3f} ns"
    assert frame_text(found) == (
        "128 of 128 PEs; blocking issue; without the host's launch (660.918 ns before the kernels, "
        f"{found.host.response_ns:.3f} ns after) and uploads ({upload})"
    )


@pytest.mark.parametrize(("shard", "count"), [("replica", 8), ("row", None)])
def test_copies_are_counted_by_the_host(shard: str, count: int | None) -> None:
    """Eight copies of 256 bytes are seven more than needed."""
    y = kb.empty(X.shape, "f32")
    frame = kb.run(own_row, kb.tensor(X, shard=shard), y, chip="one_cube", compute=False).result.frame
    assert frame.replicas == ({"x": count} if count else {})
    assert frame.replica_nbytes == (7 * 256 if count else 0)


REPLICAS = (
    'a, b = (host.tensor(name, tensors[name], "f32") for name in "ab")',
    'a = host.replicas("a", tensors["a"], "f32", slices=[[0], [0], [0]])[2]; b = host.tensor("b", tensors["b"], "f32")',
)


def test_replicas_of_a_benchmark_stand_in_the_summary_in_json_and_in_the_report(
    invoke: Invoke, bench_file: Callable[..., Path]
) -> None:
    path = bench_file(*REPLICAS)
    expected = (
        "1 of 1 PE; blocking issue; placed a 3 times (512 B of copies); no host on this chip, so uploads take no time"
    )
    said = invoke("run", path, "--topology", "one_pe").output
    assert f"frame         {expected}\n" in re.sub(r" *\n {14}", " ", said)
    folder = next(line.split()[2] for line in said.splitlines() if line.startswith("run folder"))
    frame = json.loads((Path(folder) / "run.json").read_text())["results"]["frame"]
    assert frame == {"pes_used": 1, "pes": 1, "issue": "blocking", "replicas": {"a": 3}, "replica_nbytes": 512}
    assert json.loads(invoke("report", folder, "--json").output)["frame"] == expected
    assert f"frame: {expected}" in invoke("report", folder).output.replace("\n", " ")
    page = Path("report.html")
    invoke("report", folder, "-o", page)
    assert expected in page.read_text()


def test_a_folder_of_an_older_kb_has_no_frame() -> None:
    old = replace(result("one_cube"), frame=msgspec.UNSET)
    assert frame_text(old) == ""
    assert conditions([old]) == ""
