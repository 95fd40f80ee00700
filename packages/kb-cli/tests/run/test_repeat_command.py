"""The command that repeats a finished run: it gives the same run, with its log."""

import shlex
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kb_cli.benchmark.bundled import find
from kb_cli.benchmark.run_records import RecordedScript
from kb_cli.main import kb
from kb_cli.run.records.repeat_command import repeat_command
from kb_cli.run.records.run_json import read_one_run

SMALL = ["-p", "M=9", "-p", "N=8", "-p", "K=8", "-p", "tile=8x8x8", "--seed", "3", "--no-verify", "--keep", "none"]


@pytest.mark.parametrize("own_chip", [False, True])
def test_the_command_makes_the_same_run_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_chip: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    topology = "one_pe"
    if own_chip:
        bundled = find("topologies", "one_pe").read_text()
        Path(topology := "own chip.yaml").write_text(f"{bundled}\n# mine\n")
    assert CliRunner().invoke(kb, ["run", "gemm", *SMALL, "--topology", topology]).exit_code == 0
    (folder,) = Path("kb-runs").iterdir()
    before = read_one_run(folder)
    assert not before.keep.has_log
    command = repeat_command(folder, before)
    assert ("--topology one_pe" in command) is not own_chip
    assert "--out" not in command
    again = CliRunner().invoke(kb, shlex.split(command)[1:])
    assert (again.exit_code, again.stderr) == (0, "")
    (folder,) = Path("kb-runs").iterdir()
    assert read_one_run(folder).keep.has_log
    assert read_one_run(folder).results.latency_ps == before.results.latency_ps


def test_a_script_is_repeated_with_its_options_and_arguments(tmp_path: Path) -> None:
    script = RecordedScript(
        front_end="triton",
        path="a b.py",
        sha256="",
        arguments=["--size", "3"],
        options={"topology": "one_sip", "templates": False, "lenient": True},
        launch=2,
    )
    done = CliRunner().invoke(kb, ["run", "gemm", *SMALL, "--out", str(tmp_path)])
    assert done.exit_code == 0
    (folder,) = tmp_path.iterdir()
    run = msgspec.structs.replace(read_one_run(folder), script=script)
    command = repeat_command(folder / "0002", run)
    options = "--topology one_sip --no-templates --lenient"
    assert command == f"kb exec {options} --keep all --out {tmp_path} 'a b.py' --size 3"
