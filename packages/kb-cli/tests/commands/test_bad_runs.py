"""Every command that asks a run where its time went refuses the same folders in the same words."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
SMALL = ["-p", "M=16", "-p", "N=16", "-p", "K=16", "-p", "tile=16x16x16", "--topology", "one_pe"]
COMMANDS = {
    "report": ("report", "RUN"),
    "trace": ("trace", "RUN", "-o", "x.pftrace"),
    "whatif": ("whatif", "RUN", "--set", "$.cube.nodes.hbm.bw_gbs=1"),
    "compare": ("compare", "RUN", "RUN"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def folder(invoke: Invoke, made: Path) -> Path:
    """A run of one tile, as `x` in the current folder."""
    if not list(made.iterdir()):
        assert invoke("run", "gemm", *SMALL, "--out", made).exit_code == 0
    shutil.copytree(next(made.iterdir()), "x")
    return Path("x")


def error(invoke: Invoke, command: str, run: str) -> str:
    done = invoke(*(run if word == "RUN" else word for word in COMMANDS[command]))
    assert (done.exit_code, done.stdout) == (2, "")
    assert not Path("x.pftrace").exists()
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_is_no_run(invoke: Invoke, command: str) -> None:
    Path("empty").mkdir()
    for name, got in (("empty", "a folder without run.json"), ("nowhere", "no such folder")):
        sentence = f"error: {name}: got {got}, needs the folder of a run; kb run prints its name\n"
        assert error(invoke, command, name) == sentence == invoke("verify", name).stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_in_place_of_a_folder(invoke: Invoke, command: str) -> None:
    Path("x.kbrun").touch()
    assert error(invoke, command, "x.kbrun") == (
        "error: x.kbrun: got a file, needs the folder of a run; kb run prints its name, and kb replay --out makes one "
        "of a .kbrun file\n"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_of_a_newer_format(invoke: Invoke, folder: Path, command: str) -> None:
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | {"version": run["version"] + 1}))
    assert error(invoke, command, "x") == (
        f"error: x/run.json: got format 'kernbench-run' version {run['version'] + 1}, needs kernbench-run version "
        f"{run['version']}; run the benchmark again\n"
    )


def test_a_version_that_is_a_text_is_shown_as_one(invoke: Invoke, folder: Path) -> None:
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | {"version": str(run["version"])}))
    said = f"got format 'kernbench-run' version '{run['version']}', needs kernbench-run version {run['version']}; "
    assert said in error(invoke, "report", "x")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_folder_of_a_shapes_file(invoke: Invoke, command: str) -> None:
    Path("shapes.csv").write_text("M,N,K\n16,16,16\n")
    invoke("run", "gemm", *SMALL[6:], "--shapes", "shapes.csv", "--out", "runs")
    (run,) = Path("runs").iterdir()
    assert error(invoke, command, str(run)) == (
        f"error: {run}: got the folder of several runs, needs the folder of one run; name a row, such as {run}/0000\n"
    )


@pytest.mark.parametrize("command", ["report", "trace"])
def test_a_run_without_a_log(invoke: Invoke, command: str) -> None:
    run = json.loads(invoke("run", "gemm", *SMALL, "--no-log", "--json").stdout)["run_dir"]
    assert error(invoke, command, run) == (
        f"error: {run}: got a run without an op log, needs one; run it again without --no-log\n"
    )


def test_levers_of_a_run_without_a_log(invoke: Invoke) -> None:
    run = json.loads(invoke("run", "gemm", *SMALL, "--no-log", "--json").stdout)["run_dir"]
    done = invoke("report", run, "--levers", 1)
    assert done.stderr == f"error: {run}: got a run without an op log, needs one; run it again without --no-log\n"


def test_a_run_whose_data_was_not_kept_is_compared_and_changed_from_where_json(invoke: Invoke, folder: Path) -> None:
    dropped = json.loads(invoke("run", "gemm", *SMALL, "--keep", "none", "--json").stdout)["run_dir"]
    assert not (Path(dropped) / "log").exists()
    found = json.loads(invoke("compare", "x", dropped, "--json").stdout)
    assert (found["same"], found["missing"], found["rows"]) == (True, [], [])
    half = ["--set", "$.cube.nodes.hbm.bw_gbs=51.2", "--json"]
    kept, changed = (json.loads(invoke("whatif", run, *half).stdout) for run in ("x", dropped))
    for name in ("latency_ps", "bound_ps", "before_ps"):
        assert kept[name] == changed[name] is not None
    assert kept["comparison"]["rows"] == changed["comparison"]["rows"] != []


@pytest.mark.parametrize("command", ["compare", "whatif"])
def test_a_log_that_was_cut_off_is_not_asked_where_there_is_where_json(
    invoke: Invoke, folder: Path, command: str
) -> None:
    whole = invoke(*("x" if word == "RUN" else word for word in COMMANDS[command]), "--json").stdout
    (folder / "log" / "manifest.json").unlink()
    assert invoke(*("x" if word == "RUN" else word for word in COMMANDS[command]), "--json").stdout == whole


@pytest.mark.parametrize("command", [*COMMANDS.values(), ("verify", "RUN"), ("verify", "RUN", "--json")])
def test_a_log_too_large_for_the_memory_is_no_failed_run(
    command: tuple[str, ...], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compare` and `whatif` read `where.json` and no log, and `report` says what it lacks."""
    run = json.loads(invoke("run", "gemm", *SMALL, "--json").stdout)["run_dir"]
    monkeypatch.setattr("kb_dataexec.log.reader._memory_nbytes", lambda: 0)
    done = invoke(*(run if part == "RUN" else part for part in command))
    sentence = "GiB of rows or more, needs at most half of the 0.0 GiB of this machine's memory"
    if command[0] == "report":
        assert done.exit_code == 0
        assert f"{sentence}: no lanes, and one roofline point" in " ".join((done.stdout + done.stderr).split())
    elif command[0] not in ("compare", "whatif"):
        assert (done.exit_code, done.stdout) == (2, "")
        assert sentence in done.stderr
    else:
        assert done.exit_code == 0
