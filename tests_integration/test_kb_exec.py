"""`kb exec`: scripts run as they are, each launch is a row of a run folder, and the other commands take a row."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from python_copies import kb, python

SCRIPT = """
import sys
import numpy as np
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": each}) for each in (64, 512, 1 << 20)], key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + tl.load(y_ptr + at, mask=at < n), mask=at < n)


def add(x, y):
    out = np.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.size, meta["BLOCK"]),)](x, y, out, x.size)
    return out


if __name__ == "__main__":
    x = np.arange(int(sys.argv[1]), dtype=np.float32)
    np.testing.assert_array_equal(add(add(x, x), x), 3 * x)
    print("argv", sys.argv)
    if "--raise" in sys.argv:
        raise ValueError("as asked")
    if "--exit" in sys.argv:
        sys.exit(7)
    if "--beyond" in sys.argv:
        add(x, np.ones(1, np.float32))
"""
BARRIER = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def barrier_kernel(count_ptr, N: tl.constexpr):
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < N:
        pass


barrier_kernel[(2,)](np.zeros(1, np.int32), 2)
"""


def result_of(folder: Path, *args: str) -> Any:
    done = kb(folder, *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and its run."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    result = result_of(folder, "exec", "--json", "script.py", "3000", "--topology", "of the script")
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder


@pytest.fixture
def result(made: Path) -> Any:
    return json.loads((made / "result.json").read_text(encoding="utf-8"))


def test_each_launch_is_a_row(made: Path, result: Any) -> None:
    assert (result["script"], result["exit_code"], result["topology"]) == ("script.py", 0, "one_cube")
    assert result["arguments"] == ["3000", "--topology", "of the script"]
    assert [each["shape"] for each in result["launches"]] == [
        {"launch": number, "kernel": "add_kernel", "grid": "6"} for number in (0, 1)
    ]
    one, other = result["launches"]
    assert one["params"] == {
        "x_ptr": "fp32[3000]",
        "y_ptr": "fp32[3000]",
        "out_ptr": "fp32[3000]",
        "n": 3000,
        "BLOCK": 512,
    }
    assert one["latency_ps"] == other["latency_ps"] > 0
    assert one["log_digest"] != other["log_digest"]  # the clock runs on
    assert one["launches"][0]["end_ns"] <= other["launches"][0]["call_ns"]
    assert one["where"][0]["block"] == "hbm"
    tuning = result["tunings"][0]
    assert (tuning["kernel"], tuning["key"], len(tuning["tried"])) == ("add_kernel", {"n": 3000}, 3)
    assert tuning["best"].startswith("BLOCK: 512,")
    assert tuning["tried"][1]["latency_ps"] == one["latency_ps"] < tuning["tried"][0]["latency_ps"]
    assert "got a request for 4194304 bytes, needs at most 1310720 in one piece" in tuning["tried"][2]["why_not"]
    assert result["latency_ps"] == 2 * one["latency_ps"]


def test_configurations_with_equal_launches_are_one_row(tmp_path: Path) -> None:
    configs = 'triton.Config({"BLOCK": each}, num_stages=stages) for stages in (2, 3) for each in (64, 512)'
    before = 'triton.Config({"BLOCK": each}) for each in (64, 512, 1 << 20)'
    assert before in SCRIPT
    (tmp_path / "script.py").write_text(SCRIPT.replace(before, configs), encoding="utf-8")
    said = kb(tmp_path, "exec", "script.py", "3000").stdout
    assert "num_stages changes nothing here: 4 configurations are 2, and each was simulated once\n" in said
    assert (said.count("num_stages: 2"), said.count("num_stages: 3")) == (2, 0)
    (tuning,) = result_of(tmp_path, "exec", "--json", "script.py", "3000")["tunings"]
    assert tuning["idle"] == ["num_stages"]
    names = [each["config"] for each in tuning["tried"]]
    assert [each["same_as"] for each in tuning["tried"]] == ["", "", *names[:2]]
    times = [each["latency_ps"] for each in tuning["tried"]]
    assert times[:2] == times[2:]
    assert tuning["best"] == names[1]


def test_the_same_script_gives_the_same_bytes(made: Path, result: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [
        str(Path(sys.executable).with_name("kb")), "exec", "--json", "script.py", "3000", "--topology", "of the script"
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True)
    again = json.loads(done.stdout)
    for each in (*again["launches"], *result["launches"]):
        del each["wall_s"]
    assert again == result


def test_other_commands_take_a_row(made: Path, result: Any) -> None:
    run = result["run_dir"]
    report = result_of(made, "report", f"{run}/0001", "--json")
    assert report["latency_ps"] == result["launches"][1]["latency_ps"]
    assert "x = tl.load(x_ptr + at, mask=at < n)" in {each["text"] for each in report["lines"]}
    found = result_of(made, "whatif", f"{run}/0001", "--set", "$.cube.nodes.hbm.latency_ns=90", "--json")
    assert found["before_ps"] == report["latency_ps"]
    assert found["latency_ps"] >= report["latency_ps"] + 2 * 45_000
    assert result_of(made, "compare", f"{run}/0000", f"{run}/0001", "--json")["change_ps"] == 0
    assert kb(made, "trace", f"{run}/0001", "-o", "out.pftrace").returncode == 0
    done = kb(made, "report", run)
    assert (done.returncode, done.stderr) == (
        2,
        f"error: {run}: got the folder of several runs, needs the folder of one run; name a row, such as {run}/0000\n",
    )
    done = kb(made, "verify", f"{run}/0000")
    assert (done.returncode, "the script judges its numbers itself" in done.stderr) == (2, True)


def test_an_empty_number_of_configurations_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = kb(tmp_path, "exec", "--autotune=", "script.py", "64")
    said = "error: --autotune: got an empty value, needs one that is not empty; leave the option out for its default\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_whatif_refuses_a_script_that_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    run = result_of(tmp_path, "exec", "--json", "--autotune", "first", "script.py", "64")["run_dir"]
    path.write_text(f"{SCRIPT}\n", encoding="utf-8")
    done = kb(tmp_path, "whatif", f"{run}/0000", "--set", "$.cube.nodes.hbm.latency_ns=90")
    assert (done.returncode, done.stderr) == (
        2, "error: script.py: got a script that has changed since the run, needs the script of the run; run it again\n"
    )  # fmt: skip


def test_the_exit_code_is_that_of_the_script(made: Path) -> None:
    done = kb(made, "exec", "--autotune=first", "script.py", "64", "--raise")
    assert done.returncode == 1
    assert done.stderr == (
        f'Traceback (most recent call last):\n  File "{made / "script.py"}", line 27, in <module>\n'
        '    raise ValueError("as asked")\nValueError: as asked\n'
    )
    assert "2 launches on one_cube" in done.stdout
    assert (
        kb(
            made, "exec", "--no-templates", "--autotune=first", "--out=kb-others", "script.py", "64", "--exit"
        ).returncode
        == 7
    )


def test_what_is_refused_is_one_sentence(made: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = (\n", encoding="utf-8")
    for arguments, sentence in (
        (("missing.py",), "missing.py: got no such file, needs a file"),
        (("bad.py",), "bad.py:1:5: got a syntax error ('(' was never closed), needs a Python file"),
        (("--topology", "one_cub", "bad.py"), "topology 'one_cub': got an unknown name"),
        (("--topology", "devices/h10", "bad.py"), "a topology file or a bundled name; did you mean 'devices/h100'?"),
        (("--topology", "mine.yaml", "bad.py"), "mine.yaml: got no such file, needs a topology file or a bundled name"),
    ):
        done = kb(tmp_path, "exec", *arguments)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "kb-runs").exists() or not any((tmp_path / "kb-runs").iterdir())
    done = kb(made, "exec", "--autotune=first", "--out=kb-others", "script.py", "64", "--beyond")
    assert done.returncode == 2
    assert "script.py:13, in program 0 on sip0.cube0.pe0" in done.stderr
    assert "y_ptr" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bundled_chip_in_a_folder_is_taken_by_its_name(made: Path) -> None:
    """`kb list` shows `devices/ddr4_u280` and others. No such file lies beside the script."""
    done = kb(made, "exec", "--autotune=first", "--out=kb-others", "--topology=devices/ddr4_u280", "script.py", "64")
    assert "no such file" not in done.stderr
    assert "on ddr4_u280" in done.stdout


def test_programs_that_wait_for_ever_end_with_3(tmp_path: Path) -> None:
    """Two programs wait for each other, and the chip has one PE."""
    (tmp_path / "barrier.py").write_text(BARRIER, encoding="utf-8")
    soon = "from kb_engine.timing import clock; clock.HOUSEKEEPING_INTERVAL = 1024"  # when those that wait are found
    command = "sys.argv = 'kb exec --topology=one_pe barrier.py'.split()"
    done = python(tmp_path, "-c", f"import sys; {soon}; {command}; from kb_cli.entry import main; main()")
    assert done.returncode == 3
    assert (
        "1 program has not begun, because no PE is free: programs that wait for each other, as at a barrier over the "
        "grid, need a PE each, and the launch has 1"
    ) in done.stderr
    assert "Traceback" not in done.stderr


def test_what_follows_a_script_is_the_scripts_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = kb(tmp_path, "exec", "script.py", "-", "")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "['-', '']"), done.stderr


RACE = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    total = tl.sum(tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    tl.store(y_ptr, tl.load(y_ptr) + total)


@triton.jit
def twice_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at))


x, y = np.ones(1024, np.float32), np.zeros(1024, np.float32)
twice_kernel[(8,)](x, y, 128)
add_kernel[(8,)](x, y, 128)
"""
"""The second kernel of `RACE` adds to one element in eight programs, which nothing puts in order."""


@pytest.fixture(scope="module")
def races(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `RACE` and its run, in which nobody looked for races."""
    folder = tmp_path_factory.mktemp("races")
    (folder / "race.py").write_text(RACE, encoding="utf-8")
    result = result_of(folder, "exec", "--no-sanitize", "--json", "race.py")
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder


def test_verify_searches_the_log_of_a_launch_for_races(races: Path) -> None:
    run = json.loads((races / "result.json").read_text(encoding="utf-8"))["run_dir"]
    done = kb(races, "verify", "--sanitize", f"{run}/0001")
    assert (done.returncode, done.stderr) == (1, "")
    head, numbers, *found, hashes, last = done.stdout.splitlines()
    assert last == "FAILED: the sanitizer found 2"
    assert head == f"{run}/0001: not verified"
    assert numbers == "  the script judges its numbers itself: kb exec race.py runs its checks"
    assert [each.partition(": ")[0].strip() for each in found] == ["overwrite race", "write race"]
    assert all("race.py:10 (" in each for each in found)
    assert hashes.startswith("  hashes of ")
    done = kb(races, "verify", "--sanitize", f"{run}/0000")
    assert (done.returncode, "  sanitizer: clean\n" in done.stdout) == (0, True)
    done = kb(races, "verify", "--sanitize", "--json", run)
    rows = json.loads(done.stdout)
    assert (done.returncode, [len(each["sanitizer"]["findings"]) for each in rows]) == (1, [0, 2])
    assert [(each["verified"], each["refusal"]) for each in rows] == [(None, None)] * 2


def test_sanitize_tells_the_races_of_each_launch_and_changes_no_folder(races: Path) -> None:
    plain = json.loads((races / "result.json").read_text(encoding="utf-8"))
    done = kb(races, "exec", "--json", "--sanitize", "--out=kb-searched", "race.py")
    result = json.loads(done.stdout)
    assert (done.returncode, result["exit_code"]) == (1, 0)
    assert result["launches"][0]["sanitizer"] == {"findings": [], "leaks": []}
    found = result["launches"][1]["sanitizer"]["findings"]
    assert [(each["hazard"], each["count"]) for each in found] == [("overwrite race", 8), ("write race", 8)]
    assert all(each["element"] == {"tensor": "y_ptr", "index": [0]} for each in found)
    searched = json.loads(kb(races, "verify", "--sanitize", "--json", f"{plain['run_dir']}/0001").stdout)
    unnamed = [{name: value for name, value in each.items() if name != "element"} for each in found]
    assert searched["sanitizer"] == {"findings": unnamed}
    assert not any("sanitizer" in each for each in plain["launches"])
    for name in ("run.json", "0000/run.json", "0001/run.json"):
        here, there = (races / run["run_dir"] / name for run in (result, plain))
        assert here.read_bytes() == there.read_bytes()


def test_sanitize_prints_what_launches_have_in_common_once(tmp_path: Path) -> None:
    (tmp_path / "race.py").write_text(f"{RACE}add_kernel[(8,)](x, y, 128)\n", encoding="utf-8")
    done = kb(tmp_path, "exec", "--sanitize", "race.py")
    lines = done.stdout.splitlines()
    assert (done.returncode, "sanitizer: FAILED, 4 found" in lines) == (1, True)
    found = [line for line in lines if line.startswith("launch 0")]
    assert [line.split(": ")[:2] for line in found] == [
        ["launch 0001", "overwrite race"],
        ["launch 0001", "write race"],
    ]
    assert all("race.py:10 (" in line and line.endswith("; the same in 1 launch more") for line in found)


def test_sanitize_says_that_launches_are_clean_and_keeps_the_code_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text(RACE.partition("add_kernel[")[0], encoding="utf-8")
    done = kb(tmp_path, "exec", "--sanitize", "clean.py")
    assert (done.returncode, "sanitizer: clean\n" in done.stdout) == (0, True)
    assert "sanitizer" not in kb(tmp_path, "exec", "clean.py").stdout
    (tmp_path / "race.py").write_text(f"{RACE}raise SystemExit(7)\n", encoding="utf-8")
    assert kb(tmp_path, "exec", "--sanitize", "race.py").returncode == 7


def test_verify_does_not_search_a_log_that_was_changed(races: Path) -> None:
    run = result_of(races, "exec", "--no-sanitize", "--json", "--out=kb-changed", "race.py")["run_dir"]
    path = next((races / run / "0001" / "log").glob("ops*"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    done = kb(races, "verify", "--sanitize", f"{run}/0001")
    said = f"{run}/0001/log/{path.name}: got other bytes than the run wrote, needs the bytes that run.json lists"
    assert (done.returncode, done.stdout) == (1, f"{run}/0001: FAILED\n  {said}\nFAILED: nothing was compared\n")


@pytest.mark.parametrize("chip", ["one_cube", "one_pe"])
def test_races_are_looked_for_by_default(races: Path, chip: str) -> None:
    command = ("exec", f"--topology={chip}", f"--out=kb-{chip}", "race.py")
    done = kb(races, *command)
    assert (done.returncode, "races: FAILED, 2 found" in done.stdout.splitlines()) == (1, True)
    assert done.stdout.splitlines()[-1] == "FAILED: 1 of 2 launches with races"
    found = [line for line in done.stdout.splitlines() if line.startswith("launch 0001: ")]
    assert [line.split(": ")[1] for line in found] == ["overwrite race", "write race"]
    assert all(" at y_ptr[0], " in line and ", program 0, " in line and "8 programs " in line for line in found)
    result = json.loads(kb(races, "exec", "--json", *command[1:]).stdout)
    assert [len(each["races"]["races"]) for each in result["launches"]] == [0, 2]
    assert not any("sanitizer" in each for each in result["launches"])
    without = kb(races, "exec", "--no-sanitize", *command[1:])
    assert (without.returncode, "race" in without.stdout.replace("race.py", "").replace("race-", "")) == (0, False)


LOCK = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def locked_kernel(x_ptr, lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


x, lock = np.zeros(1, np.float32), np.zeros(1, np.int32)
locked_kernel[(8,)](x, lock)
assert x[0] == 8
"""


def test_a_lock_is_not_decided_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "lock.py").write_text(LOCK, encoding="utf-8")
    done = kb(tmp_path, "exec", "lock.py")
    assert done.returncode == 0, done.stdout + done.stderr
    (said,) = [line for line in done.stdout.splitlines() if "race" in line]
    assert said.startswith("launch 0000: races not decided: lock.py:11 at x_ptr[0]")
    assert kb(tmp_path, "exec", "--sanitize", "lock.py").returncode == 0


def test_sim_stats_count_all_launches_of_a_script(races: Path) -> None:
    command = ("exec", "--no-sanitize", "--out=kb-work", "--sim-stats")
    (races / "twice.py").write_text(f"{RACE}add_kernel[(8,)](x, y, 128)\n", encoding="utf-8")
    done = kb(races, *command, "twice.py")
    assert done.returncode == 0
    assert re.search(r"^launches +3$", done.stdout, re.MULTILINE)
    assert "how the times were found" not in kb(races, "exec", "--no-sanitize", "--out=kb-work", "twice.py").stdout
    found = result_of(races, *command, "--json", "twice.py")["simulated"]
    assert (found["launches"], found["slow_path"]) == (3, [])


def test_sim_stats_add_up_chips_that_were_built_anew(tmp_path: Path) -> None:
    """A launch that fails leaves a chip that nobody uses again."""
    beyond = (
        "try:\n    twice_kernel[(8,)](x, y[:1].copy(), 128)\nexcept Exception:\n    pass\nadd_kernel[(8,)](x, y, 128)\n"
    )
    (tmp_path / "script.py").write_text(RACE + beyond, encoding="utf-8")
    result = result_of(tmp_path, "exec", "--no-sanitize", "--json", "script.py")
    assert (len(result["launches"]), result["simulated"]["launches"]) == (3, 3)
