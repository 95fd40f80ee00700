"""No option for output overwrites an input."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
CHIPS = Path(__file__).parents[4] / "topologies"


def copies(folder: Path, bench_file: Callable[..., Path]) -> dict[str, Path]:
    """A benchmark, its neighbour and a topology in *folder*, and further names of the first and the last."""
    bench, chip = bench_file(), folder / "chip.yaml"
    shutil.copy(CHIPS / "one_pe.yaml", chip)
    (folder / "beside.py").write_text("HELD = 1")
    os.link(bench, folder / "second")
    (folder / "link.svg").symlink_to(chip)
    return {name: folder / name for name in ("small.py", "chip.yaml", "beside.py", "second", "link.svg")}


@pytest.mark.parametrize(
    "args",
    [
        ["report", "a run", "-o", "no <b>/x.html"],
        ["pack", "a run", "-o", "no <b>/x.kbrun"],
        ["sweep", "gemm", "-o", "no <b>/x.csv"],
        ["trace", "a run", "-o", "no <b>/x.pftrace"],
    ],
)
def test_a_missing_folder_is_refused_before_any_work(invoke: Invoke, args: list[str]) -> None:
    done = invoke(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    needs = "needs a folder that is; make no <b> first"
    assert done.stderr == f"error: -o: got {args[-1]} in a folder that is not there, {needs}\n"
    assert not Path("kb-sweeps").exists()


@pytest.mark.parametrize(
    "args",
    [
        ["report", "a run", "-o", "/proc/x.html"],
        ["pack", "a run", "-o", "/proc/x.kbrun"],
        ["trace", "a run", "-o", "/proc/x.pftrace"],
        ["sweep", "gemm", "-o", "/proc/x.csv"],
        ["sweep", "gemm", "-p", "M=64,128", "--out", "/proc"],
        ["sweep", "gemm", "-p", "M=64,128", "--out", "/proc/x"],
        ["probe", "--all", "--topology", "four_sip", "--heatmap", "/proc/x.svg"],
    ],
)
def test_a_read_only_folder_is_refused_before_any_work(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("work before the folder was tried")

    monkeypatch.setattr("kb_cli.commands.sweep.run_sweep", work)
    monkeypatch.setattr("kb_cli.commands.probe.probe_all", work)
    done = invoke(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    option, folder = args[-2], "/proc/x" if args[-1] == "/proc/x" else "/proc"
    assert done.stderr == (
        f"error: {option}: got {folder}, a folder that cannot be written (No such file or directory), needs a folder "
        f"for results; name another one with {option}\n"
    )


def test_a_folder_is_no_table_of_a_sweep(invoke: Invoke) -> None:
    Path("points.csv").mkdir()
    done = invoke("sweep", "gemm", "-p", "M=8", "-o", "points.csv")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("Invalid value for '-o': File 'points.csv' is a directory.\n")
    assert not Path("kb-sweeps").exists()


@pytest.mark.parametrize("name", ["picture", "picture.png"])
@pytest.mark.parametrize(
    "command", [["probe", "--all", "--topology", "one_pe", "--heatmap"], ["topology", "show", "one_pe", "--out"]]
)
def test_a_picture_is_an_svg(invoke: Invoke, command: list[str], name: str) -> None:
    done = invoke(*command, name)
    got = ".png" if name.endswith(".png") else repr(name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: {command[-1]}: got {got}, needs .svg\n"
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("number", ["nan", "inf", "1e400"])
@pytest.mark.parametrize(
    "command", [["compare", "one", "other", "--fail-above"], ["runs", "--prune", "--dry-run", "--older"]]
)
def test_a_number_that_is_compared_is_finite(invoke: Invoke, command: list[str], number: str) -> None:
    done = invoke(*command, number)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith(f"Invalid value for '{command[-1]}': got {number}, needs a finite number.\n")


def test_a_file_is_not_replaced_in_a_folder_that_cannot_be_written(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> None:  # noqa: A002 -- as of TemporaryFile
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kb_cli.terminal.output_file.TemporaryFile", refuse)
    Path("old.html").write_text("old")
    done = invoke("report", "a run", "-o", "old.html")
    assert (done.exit_code, done.stdout, Path("old.html").read_text()) == (2, "", "old")
    assert done.stderr == (
        "error: -o: got ., a folder that cannot be written (Permission denied), needs a folder for results, because a "
        "new old.html is written beside the one that it replaces; name another one with -o\n"
    )


def test_a_new_benchmark_needs_a_folder(invoke: Invoke) -> None:
    done = invoke("new", "no/mine.py")
    assert done.exit_code == 2
    assert (
        done.stderr
        == "error: FILE: got no/mine.py in a folder that is not there, needs a folder that is; make no first\n"
    )


RUN = ["run", "small.py", "--topology", "chip.yaml", "--trace"]
SHOW = ["topology", "show", "chip.yaml", "--out"]
PROBE = ["probe", "--all", "--topology", "chip.yaml", "--heatmap"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, name) for command in (RUN, SHOW, PROBE) for name in ("chip.yaml", "beside.py", "link.svg")),
        (RUN, "small.py"),
        (RUN, "second"),
    ],
)
def test_an_input_is_not_overwritten(
    invoke: Invoke, tmp_path: Path, bench_file: Callable[..., Path], command: list[str], name: str
) -> None:
    files = copies(tmp_path, bench_file)
    before = {path: path.read_bytes() for path in files.values()}
    done = invoke(*command, str(files[name]))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {command[-1]}: got {files[name]}, ")
    assert {path: path.read_bytes() for path in files.values()} == before


@pytest.mark.parametrize("command", [["topology", "show"], ["probe", "--all", "--topology"]])
def test_a_name_writes_nowhere_outside(invoke: Invoke, tmp_path: Path, command: list[str]) -> None:
    lines = (CHIPS / "one_pe.yaml").read_text().splitlines(keepends=True)
    text = "".join('name: "../../up"\n' if line.startswith("name:") else line for line in lines)
    (tmp_path / "down" / "here").mkdir(parents=True)
    (tmp_path / "down" / "here" / "chip.yaml").write_text(text)
    os.chdir(tmp_path / "down" / "here")
    invoke(*command, "chip.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["down"]
    assert [path.name for path in (tmp_path / "down").iterdir()] == ["here"]
