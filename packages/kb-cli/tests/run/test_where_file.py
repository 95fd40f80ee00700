"""`where.json`: it lies in every run folder with a log, and says what the log says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kb_cli.run.base.files import RunFolderError
from kb_cli.run.records.where_time import read_where
from kb_dataexec import read_log
from kb_dataexec.analysis import where

Invoke = Callable[..., Result]


def run(invoke: Invoke, bench: Path, *options: str) -> Path:
    done = invoke("run", bench, "--json", *options)
    assert done.exit_code == 0, done.output
    return Path(json.loads(done.stdout)["run_dir"])


@pytest.mark.parametrize("policy", ["all", "none"])
def test_it_adds_up_with_any_option_of_keep(invoke: Invoke, bench_file: Callable[..., Path], policy: str) -> None:
    folder = run(invoke, bench_file(), "--keep", policy)
    found = read_where(folder)
    results = json.loads((folder / "run.json").read_text())
    assert "where.json" in results["files"]
    (launch,) = found.launches
    assert sum(row.ps for row in launch.rows) == launch.end_ps - launch.start_ps
    assert launch.kernels_end_ps - launch.kernels_start_ps == results["results"]["latency_ps"]
    if policy == "all":
        assert where(read_log(folder / "log")) == found


def test_without_a_log_there_is_none(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    folder = run(invoke, bench_file(), "--no-log")
    assert not (folder / "where.json").exists()
    with pytest.raises(RunFolderError) as error:
        read_where(folder)
    fix = "run the benchmark again, without --no-log"
    assert str(error.value) == f"{folder}: got a run without where.json, needs where its time went; {fix}"


def test_a_damaged_file_is_refused(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    folder = run(invoke, bench_file())
    (folder / "where.json").write_text('{"launches": 3}')
    with pytest.raises(RunFolderError, match=r"where\.json: .*launches"):
        read_where(folder)
