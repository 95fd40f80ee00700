"""The command line as a whole: help without imports, and errors as exit codes."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from kb_cli import main
from kb_cli.commands import topology
from kb_messages import KbError, SimulationStuckError

Invoke = Callable[..., Result]
HEAVY = ["numpy", "rich", "msgspec", "yaml", "simpy", "kb_engine", "kb_topology", "kb_messages"]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kb_cli.main import kb\n"
        "try: kb.main(['--help'], prog_name='kb')\n"
        f"finally: print(sorted(set({HEAVY}) & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(name in done.stdout for name in main.COMMANDS)


def test_the_sentences_of_the_help_are_those_of_the_commands() -> None:
    for name in main.COMMANDS:
        done = CliRunner().invoke(main.kb, [name, "--help"])
        assert done.exit_code == 0


def test_version_and_mistyped_commands(invoke: Invoke) -> None:
    assert invoke("--version").stdout == "kb 0.1.0\n"
    done = invoke("rnu")
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: no command 'rnu'; did you mean 'run'?\n")


@pytest.mark.parametrize(
    ("error", "exit_code", "text"),
    [
        (KbError("here", "x", "y"), 2, "error: here: got x, needs y\n"),
        (SimulationStuckError("simulation", "x", "y"), 3, "error: simulation: got x, needs y\n"),
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 2, "error: out of memory\n"),
        (
            PermissionError(13, "Permission denied", "out"),
            2,
            "error: out: got an error of the system (Permission denied), needs a file or stream that can be used\n",
        ),
    ],
)
def test_errors_become_exit_codes(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, error: BaseException, exit_code: int, text: str
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(topology, "check_chip", fail)
    done = invoke("topology", "check", "one_pe")
    assert (done.exit_code, done.stdout, done.stderr) == (exit_code, "", text)


def test_a_bug_keeps_its_traceback(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "check_chip", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        invoke("topology", "check", "one_pe")


def test_help_that_cannot_be_printed_ends_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("click.core.echo", full)
    monkeypatch.setattr("click.decorators.echo", full)
    with pytest.raises(SystemExit) as caught:
        main.main(["--help"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "error: input or output: got an error of the system (No space left on device), "
        "needs a file or stream that can be used\n"
    )
