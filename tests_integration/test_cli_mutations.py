"""`kb verify` of a log from which any one record is missing, or in which any one address is another, says no."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kb_cli.main import kb
from kb_cli.run.records.data import load_expected
from kb_cli.run.records.manifest_check import claims
from kb_cli.run.records.run_json import write_run
from kb_cli.run.simulation.verify_folder import verify_run
from kb_dataexec import OpLog, read_log
from kb_dataexec.analysis import backward_slice
from kb_dataexec.log import write_log
from kb_dataexec.verify import product_sample

SMALL = ["-p", "M=24", "-p", "N=24", "-p", "K=72", "-p", "tile=16x16x32", "--topology", "one_pe"]
"""Tiles that are whole and cut along each side, and a first, a middle and a last tile of each sum."""
DELTAS = (2, 64, -32)
ALL = "KB_ALL_MUTANTS" in os.environ
SHARE = 1 if ALL else 4
"""Every which record or operand is changed, where each change is tried by `nox -s mutants`."""


class Run:
    """A run folder whose log is replaced again and again, its digest adapted so that the data must tell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = read_log(folder / "log")
        self.outputs = [expected.tensor for expected in load_expected(folder / "expected").values()]
        self.stored = json.loads((folder / "run.json").read_text())

    def passes(self, log: OpLog) -> bool:
        shutil.rmtree(self.folder / "log")
        summary = write_log(self.folder / "log", log)
        write_run(self.folder, {**self.stored, "log_digest": summary.digest, "files": claims(self.folder)})
        return verify_run(self.folder).ok

    def without(self, op_id: int) -> OpLog:
        keep = [table["op_id"] != op_id for table in (self.log.ops, self.log.operands)]
        return OpLog(self.log.ops[keep[0]], self.log.operands[keep[1]], self.log.strings, self.log.immediates)

    def moved(self, operand: int, delta: int) -> OpLog:
        operands = self.log.operands.copy()
        operands["offset"][operand] += delta
        return OpLog(self.log.ops, operands, self.log.strings, self.log.immediates)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return new_run(tmp_path_factory.mktemp("mutations"))


def new_run(folder: Path, *options: str) -> Run:
    command = ["run", "gemm", *SMALL, "--out", str(folder), "--json", *options]
    done = CliRunner().invoke(kb, command, catch_exceptions=False)
    assert done.exit_code == 0
    return Run(Path(json.loads(done.stdout)["run_dir"]))


def test_the_log_itself_passes(run: Run) -> None:
    assert run.log.n_ops == 12 * 4 + 4 * 2
    assert run.passes(run.log)


def test_no_record_can_be_dropped(run: Run) -> None:
    every = set(run.log.ops["op_id"].tolist())
    needed = backward_slice(run.log, [block.rectangle for tensor in run.outputs for _, block in tensor.blocks()])
    unnoticed = {op_id for op_id in every if run.passes(run.without(op_id))}
    print(f"{len(every)} records, {len(every - needed)} outside the slice: {sorted(every - needed)}")
    assert unnoticed == every - needed == set()


def test_verify_names_the_missing_op(run: Run) -> None:
    assert not run.passes(run.without(7))
    said = verify_run(run.folder)
    assert "got no row of 1 of the ops 0 to 55, the first of them op 7, needs a row for each op" in str(said)


def test_no_address_can_be_moved(run: Run) -> None:
    """Every fourth by one of the distances, which take turns; `nox -s mutants` moves each by all."""
    moves = [
        (operand, delta)
        for operand in range(0, run.log.n_operands, SHARE)
        for delta in (DELTAS if ALL else [DELTAS[operand % len(DELTAS)]])
    ]
    unnoticed = [move for move in moves if run.passes(run.moved(*move))]
    print(f"{len(moves)} moves of {run.log.n_operands} operands, {len(unnoticed)} unnoticed: {unnoticed}")
    assert unnoticed == []


def test_random_sums_alone_notice_every_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_sample, "ROWS", 1)
    run = new_run(tmp_path, "--verify", "sample")
    assert run.passes(run.log)
    unnoticed = [op_id for op_id in run.log.ops["op_id"].tolist()[::SHARE] if run.passes(run.without(op_id))]
    unnoticed += [at for at in range(1, run.log.n_operands, 3 * SHARE) if run.passes(run.moved(at, 2))]
    assert unnoticed == []
