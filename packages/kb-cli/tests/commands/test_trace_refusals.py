"""`kb trace`: bad input ends in a sentence."""

import json
import re
from pathlib import Path

import pytest
from trace_runs import GEMM, Invoke, copied, gemm_run, read, services

from kb_cli.run.records.run_json import write_run
from kb_cli.trace.window import parse_window
from kb_dataexec import read_log
from kb_messages import KbError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def folder(invoke: Invoke, runs: Path) -> Path:
    return gemm_run(invoke, runs)


def refused(invoke: Invoke, *args: object) -> str:
    done = invoke("trace", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert not list(Path().glob("**/*.pftrace*"))
    return done.stderr


def test_a_log_that_is_too_large_is_refused_before_its_rows_are_made(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_dataexec.log.reader._memory_nbytes", lambda: 8)
    monkeypatch.setattr("kb_dataexec.log.compressed.CompressedReader.read", None)
    said = refused(invoke, folder, "-o", "x.pftrace")
    assert said.startswith(
        f"error: {folder / 'log'}: got 0.0 GiB of rows or more, needs at most half of the 0.0 GiB of "
    )
    assert said.endswith(
        "`kb report` and `kb web` show such a run without its records; or trace one of smaller sizes\n"
    )


def test_a_run_without_log(invoke: Invoke) -> None:
    small = [*GEMM, "--topology", "one_pe"]
    without, none = (
        json.loads(invoke("run", "gemm", *small, *more, "--json").stdout)["run_dir"]
        for more in (["--no-log"], ["--keep", "none"])
    )
    assert refused(invoke, without, "-o", "x.pftrace") == (
        f"error: {without}: got a run without an op log, needs one; run it again without --no-log\n"
    )
    assert refused(invoke, none, "-o", "x.pftrace") == (
        f"error: {none}: got a run whose op log was not kept (--keep none), needs one; run it again with --keep all\n"
    )


EMPTY = """
import numpy as np
from msgspec import Struct

from kb_engine import Arrays, Benchmark, DType, Host, Language, Tensor, TensorRef


def kernel(tl: Language, x: TensorRef) -> None:
    pass


class EmptyParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Empty(Benchmark[EmptyParams]):
    Params = EmptyParams
    name = "empty"

    def inputs(self, p: EmptyParams, rng: np.random.Generator) -> Arrays:
        return {"x": np.zeros((16, 16), np.float16)}

    def launch(self, host: Host, p: EmptyParams, tensors: Arrays) -> dict[str, Tensor]:
        x = host.tensor("x", tensors["x"], DType.F16)
        host.launch(kernel, x, pes=range(1))
        return {"x": x}

    def reference(self, p: EmptyParams, inputs: Arrays) -> Arrays:
        return {"x": inputs["x"].astype(np.float64)}

    def flops(self, p: EmptyParams) -> int:
        return 0

    def footprint(self, p: EmptyParams) -> int:
        return 512

    def tolerance(self, p: EmptyParams, inputs: Arrays, expected: Arrays) -> Arrays:
        return {"x": np.zeros((16, 16))}
"""
"""A benchmark whose kernel does nothing. Its run takes 0 ps."""


def test_a_run_whose_programs_issued_no_command(invoke: Invoke) -> None:
    """Nothing is wrong with its log, and the sentence does not say so. A log that was cut off is another thing."""
    Path("empty.py").write_text(EMPTY)
    run = json.loads(invoke("run", "empty.py", "--topology", "one_pe", "--json").stdout)["run_dir"]
    assert invoke("verify", run).exit_code == 0
    assert refused(invoke, run, "-o", "x.pftrace") == (
        f"error: {run}: got a run whose programs issued no command, needs one with at least one command; "
        "nothing can be drawn of this one; `kb report` shows it\n"
    )
    (Path(run) / "log/manifest.json").unlink()
    assert refused(invoke, run, "-o", "x.pftrace") == (
        f"error: {run}/log: got a log that was cut off before its first record, needs at least one record; "
        "run it again with --keep all\n"
    )


@pytest.mark.parametrize(
    ("name", "got"),
    [("x.json", ".json"), ("x.gz", ".gz"), ("x.json.gz", ".gz"), ("x", "'x'"), ("pftrace", "'pftrace'")],
)
def test_names_that_are_no_trace(invoke: Invoke, folder: Path, name: str, got: str) -> None:
    assert refused(invoke, folder, "-o", name) == f"error: -o: got {got}, needs .pftrace or .pftrace.gz\n"
    assert not Path(name).exists()


def test_folders_that_are_no_run(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, got in (("empty", "a folder without run.json"), ("nothing", "no such folder")):
        sentence = f"error: {name}: got {got}, needs the folder of a run; kb run prints its name\n"
        assert refused(invoke, name, "-o", "x.pftrace") == sentence == invoke("verify", name).stderr
    run = copied(folder, tmp_path)
    write_run(run, {**json.loads((run / "run.json").read_text()), "version": 99})
    sentence = refused(invoke, "x", "-o", "x.pftrace")
    assert sentence == invoke("verify", "x").stderr
    assert re.fullmatch(
        r"error: x/run\.json: got format 'kernbench-run' version 99, needs kernbench-run version \d+; "
        r"run the benchmark again\n", sentence,
    )  # fmt: skip


def test_a_shapes_run_has_a_trace_for_each_row(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n8,8,8\n24,8,8\n")
    options = ["--shapes", "shapes.csv", "--topology", "one_pe", "--out", "runs", "-p", "tile=8x8x8"]
    invoke("run", "gemm", *options)
    (run,) = Path("runs").iterdir()
    assert refused(invoke, run, "-o", "x.pftrace") == (
        f"error: {run}: got the folder of several runs, needs the folder of one run; name a row, such as {run}/0000\n"
    )
    assert len(services(read(invoke, run / "0001", "x.pftrace"))) == read_log(run / "0001" / "log").n_ops


@pytest.mark.parametrize(
    ("pe", "fix"),
    [
        pytest.param("sip0.cube0.pe9", "did you mean 'sip0.cube0.pe7'?", id="like another one"),
        pytest.param("5", "the first one is sip0.cube0.pe0", id="like no other"),
    ],
)
def test_a_pe_that_is_not_there(invoke: Invoke, folder: Path, pe: str, fix: str) -> None:
    assert refused(invoke, folder, "-o", "x.pftrace", "--pe", pe) == (
        f"error: --pe: got '{pe}', needs the id of a PE that has records in the log; {fix}\n"
    )


def test_windows_in_which_nothing_happens(invoke: Invoke, folder: Path) -> None:
    log = read_log(folder / "log")
    end = int(log.ops["t_end_ps"].max()) / 1000
    options = [folder, "-o", "x.pftrace"]
    needs = f"needs a window that meets the time from 0.0 to {end} ns"  # the path begins with the first call
    assert refused(invoke, *options, "--from", "1e9") == (
        f"error: --from, --to: got 1000000000.0 ns to the end, in which nothing happens, {needs}\n"
    )
    mine = log.ops["component"] == log.strings.index("sip0.cube0.pe7.pe_dma")
    first = int(log.ops["t_start_ps"][mine].min()) / 1000
    assert refused(invoke, *options, "--pe", "sip0.cube0.pe7", "--to", "0.001").startswith(
        f"error: --from, --to: got 0.0 ns to 0.001 ns, in which nothing happens, "
        f"needs a window that meets the time from {first} "
    )
    for begin, stop in (("5", "5"), ("5", "4.999")):
        assert refused(invoke, *options, "--from", begin, "--to", stop) == (
            f"error: --from, --to: got a window without time, {begin} to {stop} ns, needs an end after the begin\n"
        )


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1e30", "1e999999999"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(KbError, match=r"needs nanoseconds, 0 or more; such as --from 1250\.5$") as error:
        parse_window(text, None)
    assert str(error.value).startswith(f"--from: got {text!r}, ")


def test_times_are_exact_picoseconds() -> None:
    assert parse_window("0.001", "9007199254740.993") == (1, 9007199254740993)
    with pytest.raises(KbError, match=r"^--to: got 0\.0001 ns, needs whole picoseconds; write at most three decimals"):
        parse_window(None, "0.0001")


def test_a_damaged_log_has_the_error_of_other_commands(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    run = copied(folder, tmp_path)
    path = run / "log" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"stored_digest": "0" * 64}))
    said = refused(invoke, "x", "-o", "y.pftrace")
    assert said.startswith("error: x/log/manifest.json: stored_digest: got ")
    assert said.endswith("; the log was changed or is damaged\n")
