"""Names of files that are no UTF-8: a command works and prints JSON, or refuses the name in a sentence."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kb_cli.benchmark import bundled

ODD = os.fsdecode(b"odd\xff")
Invoke = Callable[..., Result]


@pytest.fixture
def chip(invoke: Invoke) -> str:
    """A chip in a file of an odd name, in the current folder."""
    try:
        shutil.copy(bundled.find("topologies", "one_pe"), f"{ODD}.yaml")
    except OSError:
        pytest.fail("got a file system that takes names of text alone, needs one of bytes for this test")
    return f"{ODD}.yaml"


@pytest.fixture
def folder(invoke: Invoke, bench_file: Callable[..., Path], chip: str) -> str:
    """The folder of a run, below a folder of an odd name."""
    done = invoke("run", bench_file(), "--topology", chip, "--levers", "none", "--out", f"{ODD}-runs")
    assert done.exit_code == 0, done.output
    (found,) = Path(f"{ODD}-runs").iterdir()
    return str(found)


def test_a_run_into_such_a_folder_is_json(invoke: Invoke, bench_file: Callable[..., Path], chip: str) -> None:
    Path(f"{ODD}.csv").write_text("size\n8\n16\n")
    one = invoke("run", bench_file(), "--topology", chip, "--out", f"{ODD}-runs", "--json")
    rows = invoke("run", "small.py", "--topology", chip, "--shapes", f"{ODD}.csv", "--out", f"{ODD}-runs", "--json")
    assert (one.exit_code, rows.exit_code) == (0, 0)
    assert json.loads(one.stdout)["run_dir"].startswith("odd\\udcff-runs/small-")
    assert [each["params"]["size"] for each in json.loads(rows.stdout)] == [8, 16]
    assert invoke("run", "small.py", "--topology", chip, "--trace", f"{ODD}.jsonl").exit_code == 0
    assert Path(f"{ODD}.jsonl").stat().st_size > 100


@pytest.mark.parametrize(
    "command",
    [["report"], ["verify"], ["compare", "FOLDER"], ["whatif", "--set", "$.cube.nodes.hbm.bw_gbs=3"]],
    ids=str,
)
def test_a_finished_run_of_such_a_name_is_shown(invoke: Invoke, folder: str, command: list[str]) -> None:
    name, *more = (folder if each == "FOLDER" else each for each in command)
    shown = invoke(name, folder, *more)
    assert shown.exit_code == 0, shown.output
    assert isinstance(json.loads(invoke(name, folder, *more, "--json").stdout), dict)


def test_files_of_such_names_are_written_and_read(invoke: Invoke, folder: str, chip: str) -> None:
    for args in (
        ["report", folder, "-o", f"{ODD}.html"],
        ["trace", folder, "-o", f"{ODD}.pftrace"],
        ["pack", folder, "-o", f"{ODD}.kbrun"],
        ["replay", f"{ODD}.kbrun", "--trust"],
        ["topology", "check", chip],
        ["topology", "show", chip, "-o", f"{ODD}.svg"],
        ["probe", "pe0", "hbm0", "--topology", chip],
    ):
        done = invoke(*args)
        assert done.exit_code == 0, done.output
    assert all(Path(f"{ODD}{ending}").stat().st_size > 100 for ending in (".html", ".pftrace", ".kbrun", ".svg"))
    listed = json.loads(invoke("runs", f"{ODD}-runs", "--json").stdout)
    assert [each["folder"] for each in listed] == [folder.replace("\udcff", "\\udcff")]


NAME = "odd\\udcff.py: name: got the name 'odd\\udcff', needs a text of 1 to 100 characters that print"
BYTE = "got the byte 0xff, which is no UTF-8, in"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", f"{ODD}.py"], NAME),
        (["sweep", f"{ODD}.py", "-p", "size=8,16"], NAME),
        (["new", f"{ODD}.py"], "odd\\udcff.py: got the name 'odd\\udcff.py', needs a Python file whose stem is an "),
        (["sweep", "small.py", "--topology", f"one_pe,{ODD}.yaml"], f"--topology: {BYTE} 'one_pe,odd\\udcff.yaml', "),
        (["sweep", "small.py", "-p", f"label=a,{ODD}"], f"-p label: {BYTE} 'a,odd\\udcff', needs text in UTF-8; "),
        (["run", "small.py", "-p", f"label={ODD}"], f"-p label: {BYTE} 'odd\\udcff', needs text in UTF-8; rename "),
        (["exec", f"{ODD}.py"], f"kb exec: {BYTE} 'odd\\udcff.py', needs text in UTF-8; rename a file that has "),
        (["exec", "plain.py", ODD], f"kb exec: {BYTE} 'odd\\udcff', needs text in UTF-8; rename a file that has "),
    ],
    ids=str,
)
def test_a_name_that_results_would_have_to_hold_is_refused(
    invoke: Invoke, bench_file: Callable[..., Path], chip: str, args: list[str], said: str
) -> None:
    shutil.copy(bench_file(), "plain.py")
    if args[0] != "new":
        shutil.copy("plain.py", f"{ODD}.py")
    done = invoke(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")
    assert not Path("kb-runs").exists()
    assert not list(Path().glob("kb-sweeps/*/sweep.json"))
