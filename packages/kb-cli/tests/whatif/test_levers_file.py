"""levers.json: levers are measured once for a run and a version of kb, and no stranger's file is believed blindly."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result
from msgspec.structs import replace

from kb_cli.run.base.progress import RunProgress
from kb_cli.whatif import levers as levers_module
from kb_cli.whatif.budget import Budget
from kb_cli.whatif.known_levers import known_levers
from kb_cli.whatif.levers import levers
from kb_cli.whatif.levers_file import LeversJson, write_measured
from kb_messages import KbError

Invoke = Callable[..., Result]
SMALL = ("--topology", "one_pe", "-p", "M=64", "-p", "N=64", "-p", "K=64", "-p", "tile=64x64x64")


@pytest.fixture
def folder(invoke: Invoke, tmp_path: Path) -> Path:
    assert invoke("run", "gemm", *SMALL, "--levers", 2, "--out", tmp_path / "out").exit_code == 0
    return next((tmp_path / "out").iterdir())


def no_pass_one(*_: object) -> object:
    raise AssertionError("measured again")


def test_a_run_writes_its_levers_beside_the_manifest(folder: Path) -> None:
    measured = json.loads((folder / "levers.json").read_text())["measured"]
    assert len(measured) == 2
    assert "levers.json" not in json.loads((folder / "run.json").read_text())["files"]


def test_a_known_lever_is_not_measured_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = levers(folder)
    assert whole.measured == whole.chances > 2
    monkeypatch.setattr(levers_module, "pass_one", no_pass_one)
    assert levers(folder) == whole
    assert known_levers(folder).measured == whole.chances


def test_levers_of_another_version_or_run_are_measured_again(folder: Path) -> None:
    before = levers(folder)
    text = (folder / "levers.json").read_text()
    for old, new in ((json.loads(text)["run"], "0" * 64), ('"kb-engine": "', '"kb-engine": "9')):
        assert old in text
        (folder / "levers.json").write_text(text.replace(old, new))
        assert known_levers(folder).measured == 0
        assert levers(folder) == before


def test_a_damaged_file_is_refused_by_name(folder: Path) -> None:
    for bad in (
        b"{",
        b"\xff",
        b'{"run": 1}',
        b'{"format": "kernbench-levers", "version": 2, "run": "", "versions": {}, "measured": [], "seal": ""}',
        (folder / "levers.json").read_bytes().replace(b'"latency_ps": ', b'"latency_ps": 1'),
    ):
        (folder / "levers.json").write_bytes(bad)
        with pytest.raises(KbError, match=r"levers\.json"):
            levers(folder)


def test_values_that_the_chip_does_not_have_are_ignored(folder: Path) -> None:
    found = msgspec.json.decode((folder / "levers.json").read_bytes(), type=LeversJson)
    strange = [replace(each, set={"$.nothing": "1"}) for each in found.measured]
    write_measured(folder, found.run, found.versions, strange)
    assert known_levers(folder).measured == 0


def test_a_report_shows_what_was_measured_and_runs_no_code(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levers(folder)
    monkeypatch.setattr(levers_module, "pass_one", no_pass_one)
    monkeypatch.setattr(levers_module, "read_setup", no_pass_one)
    found = json.loads(invoke("report", folder, "--json").stdout)
    assert all(each["latency_ps"] for each in found["levers"])
    assert "(measured; " in found["sentence"]


def test_measuring_that_nobody_asked_for_ends_where_the_sentence_is_settled(folder: Path) -> None:
    (folder / "levers.json").unlink()
    found = levers_module.levers_of_folder(folder, Budget(work_s=60.0), None, RunProgress())
    assert found.is_settled
    assert 0 < found.measured < found.chances
    assert found.remedies[:2] == levers(folder).remedies[:2]


def test_without_work_nothing_is_measured(folder: Path) -> None:
    (folder / "levers.json").unlink()
    found = levers_module.levers_of_folder(folder, Budget(work_s=0.0), None, RunProgress())
    assert (found.measured, found.is_settled) == (0, False)


def test_the_run_is_the_same_with_and_without_levers(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    assert invoke("run", "gemm", *SMALL, "--levers", "none", "--out", tmp_path / "other").exit_code == 0
    other = next((tmp_path / "other").iterdir())
    assert not (other / "levers.json").exists()
    assert (other / "run.json").read_bytes() == (folder / "run.json").read_bytes()


def test_a_run_that_is_made_again_keeps_its_levers(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = levers(folder)
    monkeypatch.setattr(levers_module, "pass_one", no_pass_one)
    assert invoke("run", "gemm", *SMALL, "--out", folder.parent).exit_code == 0
    assert known_levers(folder).measured == whole.chances


def test_json_and_shapes_measure_none_unless_asked(invoke: Invoke, tmp_path: Path) -> None:
    plain = json.loads(invoke("run", "gemm", *SMALL, "--json").stdout)
    assert all(each["basis"] == "estimated" for each in plain["remedies"])
    asked = json.loads(invoke("run", "gemm", *SMALL, "--json", "--levers", 2).stdout)
    assert any(each["basis"] == "measured" for each in asked["remedies"])
    (tmp_path / "shapes.csv").write_text("M\n64\n")
    refused = invoke("run", "gemm", "--shapes", tmp_path / "shapes.csv", "--levers", 2)
    assert (refused.exit_code, "--levers: got the many runs of --shapes" in refused.stderr) == (2, True)


def test_a_launch_that_writes_to_its_inputs_gets_new_ones_for_each_lever(
    invoke: Invoke, bench_file: Callable[..., Path]
) -> None:
    path = bench_file()
    text = path.read_text()
    assert "    def launch(self, host, p, tensors):\n" in text
    path.write_text(
        text.replace(
            "    def launch(self, host, p, tensors):\n",
            "    def launch(self, host, p, tensors):\n        next(iter(tensors.values()))[:] = 1\n",
        )
    )
    done = invoke("run", path, "--topology", "one_pe", "--no-verify", "--levers", 3)
    assert "got no levers" not in done.stderr
    assert "(measured" in done.stdout.splitlines()[-1]


def test_ctrl_c_while_levers_are_measured_leaves_the_result_printed(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(levers_module, "pass_one", stopped)
    done = invoke("run", "gemm", *SMALL)
    assert done.exit_code != 0
    assert "latency " in done.stdout
