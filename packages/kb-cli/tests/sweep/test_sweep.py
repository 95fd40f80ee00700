"""`kb sweep` as users run it: nothing is computed twice, failures are listed, and a dead process costs one point."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kb_cli.main import kb
from kb_cli.report.tables import sweep_tables
from kb_cli.sweep import sweep

Invoke = Callable[..., Result]


def swept(invoke: Invoke, *args: object) -> Any:
    result = invoke("sweep", *args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_sweep_of_several_chips_is_titled_by_them(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    bench = bench_file()
    for chips, titled in ("one_pe", "one_pe"), ("one_pe,one_cube", "one_pe and one_cube"):
        said = invoke("sweep", bench, "-p", "size=8", "--topology", chips, "--jobs", 1, "--out", chips).output
        assert f"small on {titled}, size=8: " in said
        page = next(Path(chips).glob("small-*/report.html")).read_text()
        assert f"Sweep of small on {titled}<" in page


def test_only_new_points_are_simulated(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    bench = bench_file()
    one = swept(invoke, bench, "-p", "size=8,16", "--jobs", 1)
    assert (one["computed"], one["known"], one["failed"]) == (2, 0, 0)
    page = next(Path("kb-sweeps").glob("small-*/report.html")).read_bytes()
    same = swept(invoke, bench, "-p", "size=8,16", "--jobs", 1)
    assert (same["computed"], same["known"]) == (0, 2)
    assert same["points"] == one["points"]
    assert next(Path("kb-sweeps").glob("small-*/report.html")).read_bytes() == page
    grown = swept(invoke, bench, "-p", "size=8,16,24", "--jobs", 1)
    assert (grown["computed"], grown["known"]) == (1, 2)
    assert swept(invoke, bench, "-p", "size=8", "--seed", 1, "--jobs", 1)["computed"] == 1
    assert swept(invoke, bench_file("size**3", "size**2"), "-p", "size=8", "--jobs", 1)["computed"] == 1


def test_a_point_has_the_result_of_kb_run(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    bench, place = bench_file(), "$.cube.nodes.hbm.bw_gbs"
    found = swept(invoke, bench, "-p", "size=16", "--set", f"{place}=1.6,102.4", "--verify", "--jobs", 1)
    alone = json.loads(invoke("run", str(bench), "-p", "size=16", "--json").stdout)
    slow, fast = (point["result"] for point in found["points"])
    assert fast["latency_ps"] == alone["latency_ps"] < slow["latency_ps"]
    assert fast["verified"] is True
    assert [point["values"]["bw_gbs"] for point in found["points"]] == [1.6, 102.4]
    assert found["costs"] == ["more bw_gbs"]
    assert [each["points"] for each in found["configurations"]] == [[1], [0]]
    assert found["front"] == [0, 1], "the slow memory costs less"


@pytest.mark.parametrize("beside", [False, True])
def test_a_point_finds_its_benchmark_as_kb_run_does(
    invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path, beside: bool
) -> None:
    """The benchmark counts its runs, and starts the kernel as often."""
    counter = "from itertools import count\n\nRUNS = count(1)\n"
    (tmp_path / "counted.py").write_text(counter)
    imported = "from counted import RUNS\n" if beside else counter
    launch = "host.launch("
    bench = bench_file("import numpy", f"{imported}import numpy", launch, f"for _ in range(next(RUNS)): {launch}")
    alone = json.loads(invoke("run", str(bench), "--json", "--no-verify").stdout)
    found = swept(invoke, bench, "-p", "label=x,y,z", "--jobs", 1)
    assert [point["result"]["latency_ps"] for point in found["points"]] == 3 * [alone["latency_ps"]]


def test_a_workload_is_added_up(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    place = "$.cube.nodes.hbm.bw_gbs"
    found = swept(invoke, bench_file(), "-p", "size=8,16", "--set", f"{place}=1.6,102.4", "--over", "size", "--jobs", 1)
    latencies = [point["result"]["latency_ps"] for point in found["points"]]
    assert [each["values"] for each in found["configurations"]] == [{"bw_gbs": 102.4}, {"bw_gbs": 1.6}]
    assert [each["latency_ps"] for each in found["configurations"]] == [sum(latencies[2:]), sum(latencies[:2])]
    assert found["by"] == "latency"
    assert [effect["axis"] for effect in found["sensitivity"]["effects"]] == ["bw_gbs"]


def test_effects_are_against_the_first_value_that_was_given(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    """The first point has another value of `size`, because a condition leaves out the point with the first one."""
    sets = ("--set", f"{BW}=1.6,102.4", "--where", "size > 8 or bw_gbs > 2", "--jobs", 1)
    found = swept(invoke, bench_file(), "-p", "size=8,16", *sets)
    assert found["points"][0]["values"] == {"bw_gbs": 1.6, "size": 16}
    ratios = next(effect["ratios"] for effect in found["sensitivity"]["effects"] if effect["axis"] == "size")
    assert list(ratios) == ["8", "16"]
    assert ratios["8"] == 1.0 < ratios["16"]


def test_axes_of_many_values_count_the_values_left_out(
    invoke: Invoke, bench_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [bench_file(), "-p", "size=8,16", "--set", f"{BW}=1.6,102.4", "--jobs", 1]
    monkeypatch.setattr(sweep_tables, "MOST_VALUES", 1)
    assert "8: 1.000x  and 1 more; --json has all" in invoke("sweep", *options).stdout


def test_a_sweep_without_pairs_says_so(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    sets = ["--set", f"{BW}=1.6,102.4", "--where", "(size > 8) == (bw_gbs > 2)", "--jobs", 1]
    said = invoke("sweep", bench_file(), "-p", "size=8,16", *sets).stdout
    assert "No two points differ in one axis alone, so no effect is known." in said
    assert "take the same time" not in said


def test_a_sweep_of_hours_says_so_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each point takes 15 s. After two of them, 998 are to go, in 998 * 15 / 3600 = 4.2 hours."""
    now_s = iter(range(0, 1500, 15))
    monkeypatch.setattr(sweep, "monotonic", lambda: next(now_s))
    monkeypatch.setattr(sweep, "INTERVAL_S", 0)
    with sweep.SweepProgress(1000, 0) as progress:
        for _ in range(6):
            progress.add(failed=False)
    said = capsys.readouterr().err
    assert said.count("note: ") == 1
    assert re.search(r"99\d points are to go, which makes \d+\.\d hours; a sweep that is ended goes on later", said)
    with sweep.SweepProgress(10, 0) as progress:
        progress.add(failed=False)
    assert "note" not in capsys.readouterr().err


def test_more_random_points_than_a_sweep_may_have_are_refused(bench_file: Callable[..., Path]) -> None:
    options = ["sweep", bench_file(), "-p", "size=1:2000", "-p", "label=x,y", "--random", 10**9]
    refused = CliRunner().invoke(kb, [*map(str, options)])
    assert refused.exit_code == 2
    assert "--random: got 1,000,000,000 points, needs at most 1,000,000" in refused.output


def test_equal_rows_of_a_list_count_as_often_as_they_stand(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    """A workload of two products of 8 and one of 16 takes twice the one and once the other."""
    Path("layers.csv").write_text("size\n8\n16\n8\n")
    bench = bench_file()
    found = swept(invoke, bench, "--list", "layers.csv", "--over", "size", "--jobs", 1)
    assert (found["computed"], len(found["points"])) == (2, 3)
    of_8, of_16, again = (point["result"]["latency_ps"] for point in found["points"])
    assert of_8 == again != of_16
    assert [each["latency_ps"] for each in found["configurations"]] == [2 * of_8 + of_16]
    assert found["configurations"][0]["flops"] == 2 * 2 * 8**3 + 2 * 16**3
    alone = swept(invoke, bench, "--list", "layers.csv", "--jobs", 1)
    assert [each["points"] for each in alone["configurations"]] == [[1], [0], [2]]
    assert [each["latency_ps"] for each in alone["configurations"]] == [of_16, of_8, of_8]


def test_points_that_failed_have_no_part_in_ratios(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    """The chip of 1.6 GB/s has size 8 alone: size 16 fails there. The ratio of bw_gbs is that of size 8."""
    bench = bench_file("        host.launch(", "        if p.size == 16 and host.engine.topology.graph.nodes"
                       "['sip0.cube0.hbm0'].attrs['bw_gbs'] < 2:\n            raise ValueError('too slow')\n"
                       "        host.launch(")  # fmt: skip
    options = ["-p", "size=8,16", "--set", f"{BW}=1.6,102.4", "--jobs", 1]
    found = swept(invoke, bench, *options)
    slow, failed, fast, _ = found["points"]
    assert "too slow" in failed["error"]
    by_axis = {effect["axis"]: effect for effect in found["sensitivity"]["effects"]}
    wanted = fast["result"]["latency_ps"] / slow["result"]["latency_ps"]
    assert by_axis["bw_gbs"]["ratios"]["102.4"] == pytest.approx(wanted)
    assert by_axis["bw_gbs"]["failed"] == {"1.6": 1}
    said = invoke("sweep", bench, *options).stdout
    assert "1.6: 1.000x (1 failed)" in said
    assert "1 of 4 points failed, and have no part in a ratio: " in said
    over = invoke("sweep", bench, *options, "--over", "size").stdout
    assert "1 of 2 configurations have a point that failed, and are not compared" in over


def test_a_doorbell_is_an_axis_and_a_depth_that_is_too_small_a_point_that_fails(
    invoke: Invoke, bench_file: Callable[..., Path]
) -> None:
    """Two programs send a value to and fro, 8 times. Who sends on what it holds needs a second slot."""
    bench = bench_file(
        '    tl.wait(tl.composite("gemm", a, b, out=c))\n',
        (
            "    me = tl.program_id()\n"
            "    if me == 0:\n        value = tl.load(a)\n        tl.store(c, tl.dot(value, tl.load(b)))\n"
            "    for turn in range(8):\n"
            "        if me == turn % 2:\n            tl.send(value, 1 - me)\n"
            "        else:\n            value = tl.recv(1 - me)\n"
        ),
        "pes=[0]",
        "pes=range(2)",
    )
    queue = "$.cube.pe_template.nodes.pe_queue"
    found = swept(invoke, bench, "--set", f"{queue}.doorbell_ns=0,2,7", "--set", f"{queue}.depth=1,3", "--jobs", 1)
    shallow, deep = found["points"][::2], found["points"][1::2]
    assert all("deadlock" in each["error"] and "pe_queue from 1 to 2" in each["error"] for each in shallow)
    times = [each["result"]["latency_ps"] for each in deep]
    back = 2056  # the last send is acknowledged then; a doorbell of 7 ns rings later, and no other
    assert [times[1] - times[0], times[2] - times[1]] == [7 * 2000, 7 * 5000 + 7000 - back]


def test_a_tolerance_leaves_dearer_points_out_of_the_front(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    options = [bench_file(), "-p", "size=8", "--set", f"{BW}=100,102.4", "--jobs", 1]
    exact = swept(invoke, *options)
    assert [exact["configurations"][at]["values"]["bw_gbs"] for at in exact["front"]] == [102.4, 100]
    found = swept(invoke, *options, "--within", "5%")
    assert [found["configurations"][at]["values"]["bw_gbs"] for at in found["front"]] == [100]
    assert "No other is as fast, within 5.0 %, for the same" in invoke("sweep", *options, "--within", "0.05").stdout
    for wrong in "100%", "-1%", "a", "1e3", "nan":
        refused = CliRunner().invoke(kb, ["sweep", *map(str, options), "--within", wrong])
        assert refused.exit_code != 0
        assert "a share of the latency below 100 %" in refused.output


def test_failed_points_are_listed_and_kept(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    bench = bench_file("    size: int = 8", "    size: int = 8\n\n    def __post_init__(self):\n"
                       "        if self.size == 9:\n            raise ValueError('no nine')\n")  # fmt: skip
    options = ["-p", "size=8,9", "--set", "$.cube.pe_template.nodes.pe_scheduler.input_kib=512,4096", "--jobs", 1]
    found = swept(invoke, bench, *options)
    assert [bool(point["error"]) for point in found["points"]] == [False, True, True, True]
    assert "no nine" in found["points"][1]["error"]
    assert "a smaller input_kib" in found["points"][2]["error"]
    again = invoke("sweep", str(bench), *options)
    assert "0 simulated now, 2 known before" in again.stdout
    assert "3 of 4 points failed" in again.stdout


BW, BANKED = "$.cube.nodes.hbm.bw_gbs", "builtin.hbm_banked"
GEMM = "$.cube.pe_template.nodes.pe_gemm"


@pytest.mark.parametrize(
    "sets",
    [
        ["$.cube.nodes.hbm.bw_gbz=1,2"],
        [f"{BW}=64,128", "$.cube.nodes.hbm.bw_gbz=1,2"],
        ["$.cube.nodes.hbm.impl=builtin.hbm_fixed,builtin.hbm_banked", "$.cube.nodes.hbm.bw_gbz=1,2"],
        ["$.cube.links[0].bw_gbz=1,2"],
        ["$.bw_gbz=1"],
    ],
)
def test_a_key_that_no_chip_has_is_refused_before_the_first_point(
    sets: list[str], bench_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from kb_cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(bench_file()), "--jobs", "1", *(option for text in sets for option in ("--set", text))])
    assert ended.value.code == 2
    assert "bw_gbz: got an unknown key" in capsys.readouterr().err
    assert not Path("kb-sweeps").exists()


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ([f"{BW}=fast,204.8"], "bw_gbs: got 'fast', needs a number"),
        ([f"{BW}=-1,-2,102.4,204.8"], "bw_gbs: got -2, needs > 0"),
        ([f"{BW}=0"], "bw_gbs: got 0, needs > 0"),
        ([f"{GEMM}.rows=32,48.5,64.5,128"], "rows: got 48.5, needs an int"),
        (["$.cube.nodes.hbm.impl=builtin.hbm_banked,builtin.hbm_fixed", f"{BW}=fast,64"], "bw_gbs: got 'fast'"),
        (["$.cube.nodes.hbm.memory.size=2 GiB,big"], "size: got 'big', needs a size such as 512 KiB"),
        (["$.cube.nodes.hbm.memory.size=0 MiB,2 GiB,1 GiB"], "size: got 0 MiB, needs 1 B to"),
        (["$.cube.nodes.hbm.impl=builtin.hbm_bankd,builtin.hbm_fixed"], "did you mean 'builtin.hbm_banked'?"),
        ([f"{GEMM}.impl=builtin.pe_math"], "impl: got builtin.pe_math as a pe_gemm, needs a block that serves GEMM"),
        ([f"{GEMM}.rows=32,64", f"{GEMM}.clock_ghz=1,quick"], "clock_ghz: got 'quick', needs a number"),
    ],
)
def test_a_value_that_no_chip_takes_is_refused_before_the_first_point(
    sets: list[str], said: str, invoke: Invoke, bench_file: Callable[..., Path]
) -> None:
    done = invoke("sweep", str(bench_file()), "--jobs", 1, *(option for text in sets for option in ("--set", text)))
    assert done.exit_code == 2
    assert said in done.stderr
    assert not Path("kb-sweeps").exists()


def test_a_key_that_some_chips_have_costs_the_others_their_points(
    invoke: Invoke, bench_file: Callable[..., Path]
) -> None:
    impls = "$.cube.nodes.hbm.impl=builtin.hbm_banked,builtin.hbm_fixed"
    found = swept(invoke, bench_file(), "--set", impls, "--set", f"{BW}=64,128", "--jobs", 1)
    assert [BANKED in point["values"]["impl"] for point in found["points"]] == [True, True, False, False]
    assert ["bw_gbs: got an unknown key" in point["error"] for point in found["points"]] == [True, True, False, False]


@pytest.mark.parametrize("fails", ["raise MemoryError", "raise FileNotFoundError(2, 'gone', 'weights.npy')"])
def test_a_failure_of_the_machine_is_not_kept(invoke: Invoke, bench_file: Callable[..., Path], fails: str) -> None:
    fails = f"        if p.size == 16 and not __import__('pathlib').Path('better').exists():\n            {fails}\n"
    bench = bench_file("        return {name", f"{fails}        return {{name")
    assert swept(invoke, bench, "-p", "size=8,16", "--jobs", 1)["failed"] == 1
    Path("better").touch()
    found = swept(invoke, bench, "-p", "size=8,16", "--jobs", 1)
    assert (found["computed"], found["known"], found["failed"]) == (1, 1, 0)


def test_an_error_that_is_its_own_cause_is_kept(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    fails = "        error = ValueError('mine')\n        error.__cause__ = error\n        raise error\n"
    bench = bench_file("        return {name", f"{fails}        return {{name")
    for known in (0, 1):
        done = invoke("sweep", bench, "-p", "size=8", "--jobs", 1)
        assert f"{known} known before" in done.stdout
        assert "ValueError: mine" in done.stdout


def test_a_sweep_that_cannot_begin_leaves_no_folder(invoke: Invoke, tmp_path: Path) -> None:
    """With or without the extra dask, there is no such scheduler."""
    (tmp_path / "empty" / "points").mkdir(parents=True)
    for out in ("new/below", "empty"):
        done = invoke("sweep", "gemm", "--out", out, "--scheduler", "tcp://127.0.0.1", "--scheduler-wait", 1)
        assert done.exit_code == 2
        assert done.stderr.startswith("error: --scheduler")
    assert [path.name for path in tmp_path.rglob("*")] == ["empty", "points"], "what was there before stays"


def test_other_points_have_a_page_of_their_own(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    for options in ([], ["--where", "size < 20"], ["--cost", "size"], []):
        swept(invoke, bench_file(), "-p", "size=8,16,24", *options, "--jobs", 1)
    pages = list(Path("kb-sweeps").glob("small-*/sweep.json"))
    assert sorted(len(json.loads(page.read_bytes())["points"]) for page in pages) == [2, 3, 3]


def test_a_process_that_dies_costs_its_point_alone(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    dies = "        if p.size == 16:\n            import os\n            os._exit(9)\n"
    bench = bench_file("        return {name", f"{dies}        return {{name")
    found = swept(invoke, bench, "-p", "size=8,16", "--jobs", 2)
    assert [point["error"] != "" for point in found["points"]] == [False, True]
    assert "died in each of 2 tries" in found["points"][1]["error"]
    assert swept(invoke, bench, "-p", "size=8", "--jobs", 1)["computed"] == 0


def test_no_process_outlives_a_sweep_that_is_killed(bench_file: Callable[..., Path], tmp_path: Path) -> None:
    """Each process keeps the pipe of the sweep's output open until the process ends."""
    sleeps = "        import time, pathlib\n        pathlib.Path(f'began{p.size}').touch()\n        time.sleep(600)\n"
    bench = bench_file("        return {name", f"{sleeps}        return {{name")
    kb = Path(sys.executable).with_name("kb")
    command = [kb, "sweep", bench, "-p", "size=8,16", "--jobs", "2", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as sweep:
        until = time.monotonic() + 60
        while len(list(tmp_path.glob("began*"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        sweep.send_signal(signal.SIGKILL)
        assert sweep.communicate(timeout=30)[0] == b""


def test_a_process_that_begins_ends_without_a_word(bench_file: Callable[..., Path], tmp_path: Path) -> None:
    """Ctrl-C comes to a process that still imports modules, here for half a second. Another process does its job."""
    begins = "import os, pathlib, sys, time\nif '--multiprocessing-fork' in sys.orig_argv:\n"
    began = "    pathlib.Path(f'began{os.getpid()}').touch()\n    time.sleep(0.5)\n"
    (tmp_path / "sitecustomize.py").write_text(begins + began)
    command = [Path(sys.executable).with_name("kb"), "sweep", bench_file(), "-p", "size=8,16", "--jobs", "2", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    places = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": places}, **pipes) as sweep:
        until = time.monotonic() + 60
        while not (found := list(tmp_path.glob("began*"))) and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(int(found[0].name.removeprefix("began")), signal.SIGINT)
        answer, said = sweep.communicate(timeout=60)
    assert (said, json.loads(answer)["failed"]) == (b"", 0)


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        (b"(.{40}).*", rb"\1"),
        (b'"latency_ps":', b'"latency_ps":1'),
        (b'"bounded_by":"', b'"bounded_by":"not '),
        (b'"version":2', b'"version":1'),
        (b'"version":2', b'"version":' + b"[" * 100_000),
        (b'"sha256":"', b'"sha256":"\xff'),
        (b'"bounded_by":"', b'"bounded_by":"\xff'),
        (b'"bounded_by":"', rb'"bounded_by":"\\ud800'),
    ],
)
def test_a_damaged_store_is_reported_and_repaired(
    invoke: Invoke, bench_file: Callable[..., Path], pattern: bytes, damage: bytes
) -> None:
    bench = bench_file()
    first = swept(invoke, bench, "-p", "size=8", "--jobs", 1)
    stored = next(Path("kb-sweeps/points").rglob("*.json"))
    whole = stored.read_bytes()
    damaged, times = re.subn(pattern, damage, whole, flags=re.DOTALL)
    assert times == 1
    stored.write_bytes(damaged)
    found = swept(invoke, bench, "-p", "size=8", "--jobs", 1)
    assert (found["computed"], found["points"]) == (1, first["points"])
    assert found["notes"] == ["1 stored results could not be read, and were computed again"]
    mended = json.loads(stored.read_bytes())["content"]["answer"]["result"]
    assert mended == json.loads(whole)["content"]["answer"]["result"]
    assert swept(invoke, bench, "-p", "size=8", "--jobs", 1)["known"] == 1


def test_a_full_disk_leaves_no_part_of_a_point(
    invoke: Invoke, bench_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        done = invoke("sweep", bench_file(), "-p", "size=8", "--jobs", 1)
    assert done.exit_code == 2
    assert "got a full disk (No space left on device), needs room to write" in done.stderr
    assert [path for path in Path("kb-sweeps").rglob("*") if path.is_file()] == []


def test_tables_for_other_programs(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    swept(invoke, bench_file(), "-p", "size=8,16", "-o", "points.csv", "--jobs", 1)
    rows = [line.split(",") for line in Path("points.csv").read_text().splitlines()]
    assert rows[0][:3] == ["size", "chip", "latency_ps"]
    assert [row[0] for row in rows[1:]] == ["8", "16"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nosuch"], "an unknown name"),
        (["gemm", "-p", "Q=1,2"], "an unknown parameter"),
        (["gemm", "-p", "M=1,x"], "-p M: got 'x'"),
        (["gemm", "--set", "$.cube.nodes.hbm.bandwidth.x=1"], "a place that the file does not have"),
        (["gemm", "--topology", "one_cubes,one_pe"], "did you mean"),
        (["gemm", "-p", "M=1,2", "-o", "x.txt"], "-o: got .txt"),
        (["gemm", "-p", "M=1", "-p", "M=2"], "-p M: got '1' and '2', needs one list of values"),
        (["gemm", "--set", "$.a.b=1", "--set", "$.a.b=2"], "--set $.a.b: got '1' and '2', needs one list of values"),
        (["gemm", "--where", "M < 3"], "got 'M', needs a name that has values here: none; give its values with"),
        (["gemm", "--over", "M"], "got 'M', needs a name that has values here: none; give its values with -p M"),
        (["gemm", "--cost", "zz", "--set", "$.cube.nodes.hbm.bw_gbs=1,2"], "--cost: got 'zz'"),
    ],
)
def test_wrong_input_is_a_sentence(invoke: Invoke, args: list[str], said: str) -> None:
    from kb_cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["sweep", *args])
    assert ended.value.code == 2
