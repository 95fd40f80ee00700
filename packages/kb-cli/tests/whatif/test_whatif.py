"""`kb whatif`: a finished run on its chip with other values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kb_cli.run.records.run_json import read_one_run, write_run

Invoke = Callable[..., Result]
HBM = "$.cube.nodes.hbm.bw_gbs"
CLOCK = "$.cube.pe_template.nodes.pe_gemm.clock_ghz"


@pytest.fixture
def folder(invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path) -> Path:
    """A run of one tile."""
    options = ("--topology", "one_pe", "-p", "label=a b", "--seed", "5", "--levers", "none", "--out", tmp_path / "runs")
    assert invoke("run", bench_file(), *options).exit_code == 0
    return next((tmp_path / "runs").iterdir())


def answer(invoke: Invoke, folder: Path, *sets: str) -> dict[str, Any]:
    done = invoke("whatif", folder, *(word for each in sets for word in ("--set", each)), "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_faster_clock_of_a_serial_kernel(invoke: Invoke, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = answer(invoke, folder, f"{CLOCK}=2")
    gemm_ps = (8 * 4 + 64 + 64 - 2) * 1000  # f32: a quarter of a MAC in a cycle of 1 ns
    assert found["set"] == [{"path": CLOCK, "before": 1.0, "after": 2}]
    assert found["latency_ps"] == found["bound_ps"] == found["before_ps"] - gemm_ps // 2
    rows = found["comparison"]["rows"]
    assert [(row["line"], row["block"], row["change_ps"]) for row in rows] == [("small.py:9", "pe_gemm", -gemm_ps // 2)]
    assert [each["place"] for each in found["comparison"]["configuration"]] == [CLOCK]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert answer(invoke, folder, f"{CLOCK}=2") == found


def test_sizes_that_no_memory_holds_are_refused_before_inputs_are_made(
    invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path
) -> None:
    footprint = "def footprint(self, p):\n        return 10**15 if p.size > 8 else 0\n\n    def flops"
    bench = bench_file(
        "def flops", footprint, "def inputs(self, p, rng):", "def inputs(self, p, rng):\n        assert p.size == 8"
    )
    assert invoke("run", bench, "--topology", "one_pe", "--out", "runs").exit_code == 0
    folder = next(Path("runs").iterdir())
    run = json.loads((folder / "run.json").read_text())
    write_run(folder, {**run, "params": {**run["params"], "size": 16}})
    done = invoke("whatif", folder, "--set", f"{CLOCK}=2")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: small on one_pe: got 953,674,317 MiB of tensors, needs at most the ")


def test_the_same_value_changes_nothing(invoke: Invoke, folder: Path) -> None:
    found = answer(invoke, folder, f"{CLOCK}=1.0")
    assert found["latency_ps"] == found["bound_ps"] == found["before_ps"]
    assert (found["comparison"]["same"], found["comparison"]["rows"]) == (True, [])


def test_a_slower_chip_has_a_bound_too(invoke: Invoke, folder: Path) -> None:
    found = answer(invoke, folder, f"{CLOCK}=0.5", f"{HBM}=51.2")
    assert found["before_ps"] < found["bound_ps"] <= found["latency_ps"]
    assert sum(row["change_ps"] for row in found["comparison"]["rows"]) == found["latency_ps"] - found["before_ps"]


def test_a_value_that_is_no_lever_has_no_bound(invoke: Invoke, folder: Path) -> None:
    place = "$.cube.pe_template.nodes.pe_dma.queue_depth"
    found = answer(invoke, folder, f"{place}=8")
    assert found["set"] == [{"path": place, "before": 4, "after": 8}]
    assert found["bound_ps"] is None
    assert found["latency_ps"] == found["before_ps"], "a blocking kernel of one tile"


def test_tiles_that_the_chip_chose_anew_are_named(invoke: Invoke, tmp_path: Path) -> None:
    sizes = [word for each in ("M=128", "N=128", "K=128") for word in ("-p", each)]
    for name, stated, is_named in ("open", [], True), ("stated", ["-p", "tile=64x64x64"], False):
        assert invoke("run", "gemm", *sizes, *stated, "--levers", "none", "--out", tmp_path / name).exit_code == 0
        (folder,) = (tmp_path / name).iterdir()
        text = invoke("whatif", folder, "--set", "$.cube.nodes.hbm.latency_ns=20").output
        found = answer(invoke, folder, "$.cube.nodes.hbm.latency_ns=20")
        tiles = [(each["line"], *each["before"], *each["after"]) for each in found["comparison"]["tiles"]]
        said = [
            f"The chips chose other tiles for GEMMs: {line} has {before} before and {after} after."
            for line, before, after in tiles
        ]
        assert len(said) == is_named
        assert (
            all(each in text for each in said),
            "other tiles" in text,
            "%) with the tiles of the run\n" in text,
        ) == (True, is_named, is_named)
        assert (found["latency_ps"] < found["bound_ps"]) == is_named, "the bound is that of the tiles of the run"


def test_the_answer_on_a_terminal(invoke: Invoke, folder: Path) -> None:
    lines = invoke("whatif", folder, "--set", f"{CLOCK}=2").stdout.splitlines()
    assert lines[0] == f"{CLOCK}: 1.0 -> 2"
    assert [line.split()[0] for line in lines[1:3]] == ["at", "measured"]
    assert any(line.startswith("GEMM works 79.000 ns less") for line in lines)


def test_runs_without_a_log_are_measured(invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path) -> None:
    invoke("run", bench_file(), "--topology", "one_pe", "--no-log", "--out", tmp_path / "runs")
    found = answer(invoke, next((tmp_path / "runs").iterdir()), f"{CLOCK}=2")
    assert found["bound_ps"] is None
    assert found["latency_ps"] < found["before_ps"]
    assert len(found["comparison"]["missing"]) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x", "--set: got 'x', needs PATH=VALUE; write it like --set '$.cube.nodes.hbm.bw_gbs=204.8'"),
        ("hbm=3", "hbm: got no place in a topology, needs one like $.cube.nodes.hbm.bw_gbs or $.cube.links[0]"),
        (
            "$.cube.nodes.hbn.bw_gbs=3",
            (
                "{folder}/topology.yaml:11:3: $.cube.nodes.hbn: got a place that the file does not have, needs one "
                "that it has; did you mean '$.cube.nodes.hbm'?"
            ),
        ),
        ("$.cube.nodes.hbm.bw_gbs=fast", "{folder}/topology.yaml:14:92: {hbm}: got 'fast', needs a number"),
        ("$.cube.nodes.hbm.bw_gbs=-1", "{folder}/topology.yaml:14:92: {hbm}: got -1, needs > 0"),
        (
            "$.cube.nodes.hbm.bw_gbs=[1]",
            "{hbm}: got '[1]', needs a single value: a number, a text, true, false or null",
        ),
        (
            "$.cube.nodes.hbm.bw_gb=3",
            (
                "{folder}/topology.yaml:14:11: $.cube.nodes.hbm.bw_gb: got an unknown key, needs one of bw_gbs, "
                "latency_ns, burst_nbytes, kind, impl, count, memory; did you mean 'bw_gbs'?"
            ),
        ),
    ],
)
def test_settings_that_are_refused(invoke: Invoke, folder: Path, text: str, sentence: str) -> None:
    done = invoke("whatif", folder, "--set", text)
    wanted = sentence.format(folder=folder, hbm=HBM)
    assert (done.exit_code, done.stderr) == (2, f"error: {wanted}\n")


def test_a_place_given_twice(invoke: Invoke, folder: Path) -> None:
    done = invoke("whatif", folder, "--set", f"{HBM}=1", "--set", f"{HBM}=2")
    assert done.stderr == f"error: --set {HBM}: got '1' and '2', needs one value; give it once\n"


def refused(invoke: Invoke, folder: Path) -> str:
    done = invoke("whatif", folder, "--set", f"{HBM}=1")
    assert done.exit_code == 2
    return done.stderr


def resealed(folder: Path, **fields: Any) -> None:
    plain = json.loads((folder / "run.json").read_text())
    write_run(folder, plain | fields)


def test_changed_files_are_not_run(invoke: Invoke, folder: Path) -> None:
    source = (folder / "bench.py").read_text()
    (folder / "bench.py").write_text("raise SystemExit(7)\n" + source)
    wanted = (
        f"error: {folder}/bench.py: got other bytes than the run wrote, "
        "needs the bytes that run.json lists; run it again\n"
    )
    assert refused(invoke, folder) == wanted
    (folder / "bench.py").write_text(source)
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"size": 8', '"size": 32'))
    wanted = f"error: {folder}/run.json: got other content than the run wrote, needs the run's own; run it again\n"
    assert refused(invoke, folder) == wanted


def test_a_run_json_that_does_not_fit_its_benchmark(invoke: Invoke, folder: Path) -> None:
    run = read_one_run(folder)
    resealed(folder, params={**run.params, "depth": 3})
    wanted = f"error: {folder}/run.json: got the parameter 'depth', needs the parameters of the benchmark\n"
    assert refused(invoke, folder) == wanted
    resealed(folder, params={**run.params, "size": "many"})
    why = "(got 'many', needs an int)"
    wanted = f"error: {folder}/run.json: got parameters that do not fit {why}, needs the parameters of the benchmark\n"
    assert refused(invoke, folder) == wanted
    resealed(folder, params=run.params, seed=-1)
    assert "(Expected `int` >= 0 - at `$.seed`)" in refused(invoke, folder)
    resealed(folder, params=run.params, seed=6)
    assert refused(invoke, folder) == (
        f"error: {folder}: got inputs with other bytes than in the run, needs the same ones, which the benchmark "
        "makes from the seed; use the versions of numpy and of the benchmark's other files with which the run was "
        "made\n"
    )
    benchmark = {"name": "small", "file": "../small.py", "sha256": run.benchmark.sha256}
    resealed(folder, seed=5, benchmark=benchmark)
    assert refused(invoke, folder) == (
        f"error: {folder}/run.json: got the benchmark file '../small.py', needs the name of a file\n"
    )


def test_the_folder_of_a_shapes_file(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n16,16,16\n")
    options = ("-p", "tile=16x16x16", "--topology", "one_pe", "--out", tmp_path / "runs")
    assert invoke("run", "gemm", "--shapes", tmp_path / "shapes.csv", *options).exit_code == 0
    folder = next((tmp_path / "runs").iterdir())
    wanted = "got the folder of several runs, needs the folder of one run; name a row, such as"
    assert refused(invoke, folder) == f"error: {folder}: {wanted} {folder}/0000\n"
    assert answer(invoke, folder / "0000", f"{CLOCK}=2")["bound_ps"] is not None


def test_prints_of_a_kernel_do_not_mix_with_the_json(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    path = bench_file(
        "    tl.wait(", '    x = tl.load(a)\n    tl.print("sum", x + x)\n    tl.capture("x", x + x)\n    tl.wait('
    )
    folder = json.loads(invoke("run", path, "--topology", "one_pe", "--json").stdout)["run_dir"]
    assert answer(invoke, folder, f"{HBM}=51.2")["latency_ps"] > 0
    done = invoke("report", folder, "--levers", "1", "--json")
    assert json.loads(done.stdout)["levers"]
    assert "pending" not in done.stderr


def test_the_answer_is_written_as_a_picture_and_no_other_file(invoke: Invoke, folder: Path) -> None:
    done = invoke("whatif", folder, "--set", f"{CLOCK}=2", "-o", "answer.svg")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.endswith("answer.svg: the answer as a picture\n")
    assert Path("answer.svg").read_text().startswith("<svg ")
    done = invoke("whatif", folder, "--set", f"{CLOCK}=2", "-o", "answer.png")
    assert (done.exit_code, done.stderr) == (2, "error: -o: got .png, needs .svg\n")
