"""`kb run` in one process: its output, its run folder, and its exit code."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kb_cli.run.saving import keep

Write = Callable[..., Path]
Invoke = Callable[..., Result]
SMALL = ["-p", "M=40", "-p", "N=24", "-p", "K=72", "-p", "tile=16x16x32", "--topology", "one_pe"]


def test_json_is_all_that_is_on_stdout(invoke: Invoke, bench_file: Write) -> None:
    noisy = "    print('noise', flush=True)\n\n    def flops"
    path = bench_file("    def flops", noisy, "tl.wait(", "print('more', flush=True); tl.wait(")
    done = invoke("run", path, "--json")
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert "noise" in done.stderr
    assert "more" in done.stderr
    assert (result["benchmark"], result["topology"], result["params"]) == (
        "small",
        "one_cube",
        {"size": 8, "label": "x"},
    )
    assert (result["verified"], result["flops"], result["peak_flops"]) == (True, 1024, None)
    assert result["latency_ns"] * 1000 == result["latency_ps"]
    assert result["ops"] == result["tile_stages"] == 6


def test_a_table_ends_with_the_sentence(invoke: Invoke) -> None:
    done = invoke("run", "gemm", *SMALL)
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    assert "twice the clock of GEMM" in done.stdout.rstrip().rsplit("\n", 1)[1]
    assert "verified      c: ok, 960 elements" in done.stdout


def test_a_run_without_verification_has_null(invoke: Invoke) -> None:
    unverified = json.loads(invoke("run", "gemm", *SMALL, "--no-verify", "--json").stdout)
    assert (unverified["verified"], unverified["max_abs_err"]) == (None, None)
    assert unverified["ops"] > 0
    assert unverified["log_digest"]
    unlogged = json.loads(invoke("run", "gemm", *SMALL, "--no-log", "--json").stdout)
    assert [unlogged[name] for name in ("verified", "ops", "log_digest", "waits_ps")] == [None, 0, None, None]
    assert unlogged["latency_ps"] == unverified["latency_ps"]
    assert unlogged["run_dir"] != unverified["run_dir"]


def test_wrong_numbers_end_with_1(invoke: Invoke, bench_file: Write) -> None:
    done = invoke("run", bench_file("np.float64)}", "np.float64) + 1}"), "--json")
    assert done.exit_code == 1
    result = json.loads(done.stdout)
    assert result["verified"] is False
    assert result["max_abs_err"] == pytest.approx(1, abs=1e-3)
    assert result["outputs"][0]["n_wrong"] == 64
    table = invoke("run", bench_file("np.float64)}", "np.float64) + 1}"))
    assert "FAILED\n" in table.stdout
    assert "c: 64 of 64 elements wrong (100 %), in [0:8, 0:8]; at [" in " ".join(table.stdout.split())
    assert table.stdout.splitlines()[-1] == "FAILED: 1 of 1 output wrong (c)"


ROWS = """\
def kernel(tl, x, y):
    n, m = tl.program_id(0), tl.program_id(1)
    rows = slice(4 * n + m, 4 * n + m + 1)
    tl.store(y[rows, 2:7], tl.load(x[rows, 2:7]) + float(n == 1 and m > 1))
"""


def test_a_wrong_region_names_its_box_share_worst_element_and_program(invoke: Invoke, bench_file: Write) -> None:
    """Program (1, m) writes row 4 + m; rows 6 and 7 are wrong by 1 in columns 2 to 6."""
    text = bench_file().read_text()
    kernel = text[text.index("def kernel") : text.index("\n\nclass Params")]
    path = bench_file(
        *(kernel, ROWS),
        *('c = host.empty("c", (p.size, p.size), "f32")', 'c = host.tensor("c", tensors["a"], "f32")'),
        *("host.launch(kernel, a, b, c, pes=[0])", "host.launch(kernel, a, c, grid=(2, 4), pes=[0, 1])"),
        *('inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)', 'inputs["a"].astype(np.float64)'),
    )
    done = invoke("run", path, "--json")
    (output,) = json.loads(done.stdout)["outputs"]
    assert (done.exit_code, output["n_wrong"], output["argument"]) == (1, 10, "y")
    wrong = output["wrong"]
    assert (wrong["share"], wrong["region"]) == (10 / 64, [[6, 8], [2, 7]])
    assert wrong["got"] == pytest.approx(wrong["expected"] + 1, abs=1e-6)
    row = wrong["worst"][0]
    assert (wrong["program"]["ids"], wrong["line"]) == ([1, row - 4], "small.py:11")
    assert wrong["component"].startswith(wrong["program"]["pe"])
    said = "c: 10 of 64 elements wrong (15.6 %), in [6:8, 2:7]; at ["
    assert output["text"].startswith(said)
    assert f"; the writer is program (1, {row - 4}) on {wrong['program']['pe']}, by its argument y; " in output["text"]
    folder = json.loads(done.stdout)["run_dir"]
    verified = json.loads(invoke("verify", folder, "--json").stdout)
    assert verified["outputs"] == [output]
    assert invoke("verify", folder).stdout.splitlines()[-1] == "FAILED: 1 of 1 output wrong (c)"


def test_shapes_say_how_many_failed(invoke: Invoke, bench_file: Write, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("size\n4\n8\n")
    wrong = bench_file("np.float64)}", "np.float64) + (p.size == 8)}")
    done = invoke("run", wrong, "--shapes", tmp_path / "shapes.csv")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "FAILED: 1 of 2 shapes")


def test_a_failure_says_that_the_tolerance_was_the_default(invoke: Invoke, bench_file: Write) -> None:
    changes = ("np.float64)}", "np.float64) + 1}")
    stated = ("def flops", "def tolerance(self, p, inputs, expected):\n        return {'c': 0.5}\n\n    def flops")
    said = (
        "that is the default tolerance of f32 for sums of 8 terms; state another with tolerance=, or in the "
        "benchmark's tolerance()"
    )
    by_default = invoke("run", bench_file(*changes), "--keep", "all", "--json")
    result = json.loads(by_default.stdout)
    assert result["outputs"][0]["text"].endswith(said)
    assert said in invoke("verify", result["run_dir"]).stdout
    assert said not in invoke("run", bench_file(*changes, *stated)).stdout


def test_an_output_nobody_wrote_fails_verification(invoke: Invoke, bench_file: Write) -> None:
    done = invoke("run", bench_file('    tl.wait(tl.composite("gemm", a, b, out=c))', "    pass"), "--json")
    assert done.exit_code == 1
    assert "were never written" in json.loads(done.stdout)["outputs"][0]["text"]


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        (('return {"c": c}', "return c"), "small.py: launch(): got Tensor, needs a dict of the output tensors by name"),
        (('return {"c": c}', "return {}"), "small.py: launch(): got no outputs, needs at least one"),
        (("host.launch(kernel, a, b, c, pes=[0])", "pass"),
         "small.py: launch(): got no kernel launched, needs a call of host.launch"),
        (('return {"c": inputs', 'return {"d": inputs'),
         "small.py: reference(): got outputs ['d'], needs the outputs of launch(), ['c']"),
        (('return {"c": inputs', 'return {"c": np.ones((7, 8))}\n        return {"c": inputs'),
         "small.py: reference(): got shape (7, 8) for c, needs (8, 8)"),
        (("def flops", "def tolerance(self, p, inputs, expected):\n        return {'d': 1}\n\n    def flops"),
         "small.py: tolerance(): got an output 'd', needs some of ['c']"),
        (("def flops", "def tolerance(self, p, inputs, expected):\n        return {'c': [1, 2]}\n\n    def flops"),
         "small.py: tolerance(): got shape (2,) for c, needs (8, 8) or one number"),
        (("return {name: rng", "return 5\n        return {name: rng"),
         "small.py: inputs(): got int, needs a dict of numpy arrays"),
    ],
)  # fmt: skip
def test_answers_of_a_benchmark_that_cannot_be_used(
    invoke: Invoke, bench_file: Write, replacement: tuple[str, str], message: str
) -> None:
    done = invoke("run", bench_file(*replacement), "--json")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {message}\n")


def test_a_method_that_raises_shows_its_own_frames(invoke: Invoke, bench_file: Write) -> None:
    path = bench_file("return 2 * p.size**3", "return p.nope")
    done = invoke("run", path)
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "error: small.py:33: got AttributeError: 'Params' object has no attribute 'nope', needs flops() to succeed; "
        f'see the frames below\n  File "{path}", line 33, in flops\n    return p.nope\n'
    )
    assert "kb_cli" not in done.stderr


def test_the_stated_tolerance_decides(invoke: Invoke, bench_file: Write) -> None:
    stated = ("def flops", "def tolerance(self, p, inputs, expected):\n        return {'c': 2}\n\n    def flops")
    assert invoke("run", bench_file("np.float64)}", "np.float64) + 1}", *stated)).exit_code == 0


def test_limits_of_kept_files(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "RUN_LIMIT", 1024)
    done = invoke("run", "gemm", *SMALL, "--json")
    result = json.loads(done.stdout)
    assert (result["keep"]["data"], result["keep"]["log"]) == (False, False)
    assert "more than the 1 KiB --keep auto keeps of a run" in done.stderr
    assert sorted(path.name for path in Path(result["run_dir"]).iterdir()) == [
        "bench.py", "run.json", "topology.yaml", "usage.json", "wall.json", "where.json",
    ]  # fmt: skip
    kept = json.loads(invoke("run", "gemm", *SMALL, "--json", "--keep", "all").stdout)
    assert (kept["keep"]["data"], kept["keep"]["log"]) == (True, True)
    assert (Path(kept["run_dir"]) / "log" / "manifest.json").is_file()


def test_a_log_that_fits_is_kept_beside_no_data(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(invoke("run", "gemm", *SMALL, "--json").stdout)["keep"]
    assert 0 < whole["log_nbytes"] < whole["nbytes"]
    monkeypatch.setattr(keep, "RUN_LIMIT", whole["nbytes"] - 1)
    done = invoke("run", "gemm", *SMALL, "--json", "--out", "large")
    run_dir = json.loads(done.stdout)["run_dir"]
    why = r"0 MiB of data, more than the \S+ (KiB|B) --keep auto keeps of a run"
    assert re.fullmatch(f"note: 1 of 1 runs: no data kept: {why}\n", done.stderr), done.stderr
    there = {path.name for path in Path(run_dir).iterdir()}
    assert "log" in there
    assert not there & {"memory", "expected"}
    assert invoke("trace", run_dir, "-o", "x.pftrace").exit_code == 0
    assert "op log was not kept" not in invoke("report", run_dir).stdout
    refused = invoke("verify", run_dir)
    assert refused.exit_code == 2
    assert "got no memory and no expected outputs (0 MiB of data, more than the " in refused.stderr
    assert "; run it again with --keep all" in refused.stderr


def test_a_log_that_a_run_lacks_stays_in_the_folder_of_an_earlier_run(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep, "RUN_LIMIT", 10_000)
    first = json.loads(invoke("run", "gemm", *SMALL, "--json").stdout)
    assert (first["keep"]["data"], first["keep"]["log"]) == (False, True)
    second = json.loads(invoke("run", "gemm", *SMALL, "--json", "--keep", "none").stdout)
    assert second["run_dir"] == first["run_dir"]
    assert (Path(first["run_dir"]) / "log" / "manifest.json").is_file()
    assert second["keep"]["why"] == "--keep none; the folder keeps the data of an earlier run"


def test_all_shapes_share_one_limit(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n8,8,8\n8,8,8\n")
    args = ["run", "gemm", "--shapes", "shapes.csv", "--topology", "one_pe", "--json"]
    one = json.loads(invoke(*args).stdout)[0]["keep"]
    limit = one["nbytes"] + one["nbytes"] // 2
    assert one["log_nbytes"] * 2 > limit
    monkeypatch.setattr(keep, "SHAPES_LIMIT", limit)
    done = invoke(*args)
    assert [row["keep"]["data"] for row in json.loads(done.stdout)] == [True, False]
    assert done.stderr.startswith("note: 1 of 2 runs: no data and no log kept: --keep auto keeps ")
    monkeypatch.setattr(keep, "SHAPES_LIMIT", one["log_nbytes"] * 2 - 1)
    done = invoke(*args)
    assert [row["keep"]["data"] for row in json.loads(done.stdout)] == [True, True]
    assert [row["keep"]["log"] for row in json.loads(done.stdout)] == [True, False]
    assert " of log of all runs together" in done.stderr


def test_a_row_that_cannot_run_names_its_line(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n8,8,8\n9,9,9\n")
    done = invoke("run", "gemm", "--shapes", "shapes.csv", "-p", "dtype=i16")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: shapes.csv:2: gemm.py:")
    assert not (tmp_path / "kb-runs").exists()


def test_a_run_of_integers_counts_operations_and_no_flops(invoke: Invoke) -> None:
    done = invoke("run", "gemm", *SMALL, "-p", "dtype=i8")
    assert " GOP/s, " in done.stdout
    assert " OP for each byte of " in done.stdout
    assert "FLOP" not in done.stdout
    assert "FLOP for each byte of " in invoke("run", "gemm", *SMALL).stdout


def test_the_roofline_stands_next_to_the_share_of_the_peak(invoke: Invoke) -> None:
    result = json.loads(invoke("run", "gemm", *SMALL, "--json").stdout)
    roof = result["roofline"]
    hbm = result["bytes"]["hbm"]
    least_ns = (hbm["read"] + hbm["write"]) / result["bandwidth_gbs"]["hbm"]
    assert (roof["memory"], roof["bound"], roof["least_ns"]) == ("hbm", "hbm", least_ns)
    assert roof["memory_share"] == least_ns / result["latency_ns"]
    assert roof["compute_share"] == pytest.approx(result["achieved_flops"] / result["peak_flops"])
    assert result["latency_ns"] >= least_ns


DTYPE = 'label: str = "x"', 'label: str = "x"\n    dtype: DType = DType.F32'


def test_more_operations_than_the_chip_can_do_are_no_share_of_its_peak(invoke: Invoke, bench_file: Write) -> None:
    """A benchmark may state operations that its kernel leaves out, such as the masked half of attention."""
    imports = "class Params", "from kb_messages import DType\n\n\nclass Params"
    path = bench_file(*imports, *DTYPE, "return 2 * p.size**3", "return 2 * p.size**3 * 10**9")
    text = " ".join(invoke("run", path).stdout.split())
    # The peak is that of 8 arrays of 64 x 64 cells at 1 GHz, with a quarter of a multiply-add of f32 in a cycle.
    assert " as the benchmark counts, which is more than the peak of 16.38 TFLOP/s; the arrays did 1.024 kFLOP" in text
    folder = json.loads(invoke("run", path, "--json").stdout)["run_dir"]
    report = json.loads(invoke("report", folder, "--json").stdout)
    assert report["roofline"]["points"][0]["flops"] == 1024


def test_the_whole_time_of_several_launches_is_shown(invoke: Invoke, bench_file: Write) -> None:
    one = bench_file()
    assert "whole time" not in invoke("run", one).stdout
    alone = json.loads(invoke("run", one, "--topology", "one_sip", "--json").stdout)
    assert "whole time    " in invoke("run", one, "--topology", "one_sip", "--levers", "none").stdout
    launch = "host.launch(kernel, a, b, c, pes=[0])"
    many = bench_file(launch, f"[{launch} for _ in range(8)]")
    done = invoke("run", many, "--levers", "none")
    assert "in the kernels of 8 launches (not validated: " in done.stdout
    assert "whole time    " in done.stdout
    result = json.loads(invoke("run", many, "--topology", "one_sip", "--json").stdout)
    launches, host = result["launches"], result["host"]
    assert result["whole_ns"] == pytest.approx(launches[-1]["response_ns"] - launches[0]["call_ns"])
    assert result["whole_ns"] == pytest.approx(result["latency_ns"] + host["launch_ns"] + host["response_ns"])
    assert result["whole_ns"] > 7 * alone["whole_ns"]


def test_keep_none_leaves_the_data_of_an_earlier_run(
    invoke: Callable[..., Result], bench_file: Callable[..., Path]
) -> None:
    bench = bench_file()
    first = Path(json.loads(invoke("run", bench, "--json").stdout)["run_dir"])
    files = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    said = json.loads(invoke("run", bench, "--keep", "none", "--json").stdout)
    assert Path(said["run_dir"]) == first
    assert said["keep"]["why"] == "--keep none; the folder keeps the data of an earlier run"
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == files
    assert invoke("verify", first).exit_code == 0


def test_limits_of_work_are_options(
    invoke: Callable[..., Result], bench_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables are as before when the command has ended."""
    monkeypatch.setenv("KB_WATCHDOG", "7")
    monkeypatch.delenv("KB_MAX_HOURS", raising=False)
    spins = bench_file("    tl.wait(", "    while a is not None:\n        pass\n    tl.wait(")
    stopped = invoke("run", spins, "--watchdog", "0.2", "--max-hours", "0")
    assert stopped.exit_code == 3
    assert ", in sip0.cube0.pe0: the kernel has run for 0.2 s without a command or a wait; needs" in stopped.stderr
    refused = invoke("run", bench_file("pes=[0])", "grid=2 * 10**9)"))
    assert refused.exit_code == 2
    assert "got a grid of 2,000,000,000 programs, which take " in refused.stderr
    assert (os.environ["KB_WATCHDOG"], os.environ.get("KB_MAX_HOURS")) == ("7", None)


def test_a_point_of_a_sweep_that_the_watchdog_stopped_is_tried_again(
    invoke: Callable[..., Result], bench_file: Callable[..., Path]
) -> None:
    bench = bench_file("    tl.wait(", "    while a is not None:\n        pass\n    tl.wait(")
    for _ in range(2):
        found = json.loads(invoke("sweep", bench, "-p", "size=8", "--jobs", 2, "--watchdog", "0.3", "--json").stdout)
        assert (found["computed"], found["known"], found["failed"]) == (1, 0, 1)
        assert "the kernel has run for 0.3 s without a command or a wait" in found["points"][0]["error"]
