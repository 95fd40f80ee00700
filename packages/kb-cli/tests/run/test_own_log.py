"""The log of another run is refused by everything that reads the log of a run folder."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kb_cli.run.base.files import RunFolderError
from kb_cli.run.records.own_log import own_log
from kb_cli.run.records.run_json import read_one_run, write_run
from kb_cli.run.records.where_time import where_of
from kb_dataexec import read_log

GEMM = ("--topology", "one_pe", "-p", "M=16", "-p", "K=16", "-p", "tile=16x16x16")
Invoke = Callable[..., Result]


@pytest.fixture
def folder(invoke: Invoke) -> Path:
    """A run with the log of another one, of another size."""
    one, other = (
        Path(json.loads(invoke("run", "gemm", *GEMM, "-p", f"N={size}", "--json").stdout)["run_dir"])
        for size in (16, 32)
    )
    shutil.rmtree(one / "log")
    shutil.copytree(other / "log", one / "log")
    return one


def sentence(folder: Path) -> str:
    found, own = read_log(folder / "log").digest, read_one_run(folder).log_digest
    got = f"got the log of another run, of digest {found}"
    return f"{folder / 'log'}: {got}, needs the run's own, of digest {own}; run it again"


@pytest.mark.parametrize("command", [["trace", "-o", "x.pftrace"], ["report", "--levers", "0"]])
def test_commands_refuse_it(invoke: Invoke, folder: Path, command: list[str]) -> None:
    done = invoke(command[0], folder, *command[1:])
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {sentence(folder)}\n")


def test_a_comparison_of_an_older_folder_refuses_it(folder: Path) -> None:
    run = json.loads((folder / "run.json").read_text())
    del run["files"]["where.json"]
    write_run(folder, run)
    with pytest.raises(RunFolderError, match=f"^{re.escape(sentence(folder))}$"):
        where_of(folder, read_one_run(folder))


def test_a_log_that_was_cut_off_has_no_digest_to_compare(folder: Path) -> None:
    (folder / "log" / "manifest.json").unlink()
    assert not own_log(folder, read_one_run(folder), prefix=True).is_complete
