"""The command line as a whole: help without imports, and errors as exit codes."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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


def test_commands_that_read_runs_load_no_simulator() -> None:
    code = (
        "import sys\n"
        "from kb_cli.commands import web\n"
        "from kb_cli.commands.finished_runs import compare, pack, runs, trace\n"
        "print(sorted({'simpy', 'kb_components', 'kb_dataexec.execute.executor', 'http.server'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_help_has_the_sentences_of_the_commands() -> None:
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
        (SimulationStuckError("simulation", "x", "y"), 3, "error: simulation: x; needs y\n"),
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 2, "error: kb: got out of memory, needs a smaller problem or a machine with more\n"),
        (RecursionError("x"), 2, "error: kb: got input that is nested too deeply, needs less nesting\n"),
        (
            OSError(28, "No space left on device", "out/ops.npy"),
            2,
            (
                "error: out/ops.npy: got a full disk (No space left on device), needs room to write; make room, or "
                "name a folder on another disk\n"
            ),
        ),
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


@pytest.mark.parametrize("kind", [ZeroDivisionError, AssertionError, KeyError, AttributeError, BaseException])
def test_a_failure_of_kb_asks_for_a_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[BaseException]
) -> None:
    def fail(_: object) -> None:
        raise kind("of \x1b kb")

    monkeypatch.setattr(topology, "check_chip", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert exit_code_of("topology", "check", "one_pe") == main.FAILURE == 4
    said = capsys.readouterr().err
    assert said.startswith(f"error: kb itself failed: {kind.__name__}: ")
    assert all(part in said for part in ("This is a bug in kb", "kb 0.1.0", "kb topology check one_pe"))
    assert "Traceback" not in said
    assert "\x1b" not in said
    (report,) = tmp_path.iterdir()
    assert str(report) in said
    assert "Traceback (most recent call last)" in report.read_text()
    monkeypatch.setenv("KB_DEBUG", "1")
    exit_code_of("topology", "check", "one_pe")
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [report]
    monkeypatch.setenv("KB_DEBUG", "0")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert exit_code_of("topology", "check", "one_pe") == 4
    assert "the traceback, which KB_DEBUG=1 prints" in capsys.readouterr().err


def exit_code_of(*arguments: str) -> object:
    with pytest.raises(SystemExit) as caught:
        main.main(arguments)
    return caught.value.code


def test_sigterm_ends_with_143_even_when_it_is_caught(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise ImportError("a library stumbled over the signal") from error

    before = signal.getsignal(signal.SIGTERM)
    for fail in (killed, lambda _: signal.raise_signal(signal.SIGTERM)):
        monkeypatch.setattr(topology, "check_chip", fail)
        assert exit_code_of("topology", "check", "one_pe") == 143
    assert capsys.readouterr().err == ""
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interrupt_that_python_wraps_is_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11 makes a RuntimeError of what `__set_name__` raises, and classes are made while kb imports modules."""

    def wrapped(_: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__") from error

    monkeypatch.setattr(topology, "check_chip", wrapped)
    assert exit_code_of("topology", "check", "one_pe") == 130
    assert capsys.readouterr().err == ""


ENTERED = """
import signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "kb_cli.main":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from kb_cli.entry import main
main()
"""


def test_an_interrupt_while_kb_starts_shows_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", ENTERED, "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_program_that_ignores_interrupts_starts_nevertheless() -> None:
    code = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{ENTERED}"
    done = subprocess.run([sys.executable, "-c", code, "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gemm" in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_python_drops_comes_again(
    number: int, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dropping:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def collected(_: object) -> None:
        Dropping()
        last = time.monotonic() + 60
        while time.monotonic() < last:
            time.sleep(0.01)
        pytest.fail("the signal did not come again")

    monkeypatch.setattr(topology, "check_chip", collected)
    assert exit_code_of("topology", "check", "one_pe") == code
    assert "ignored" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["topology", "check", "one_pe"]])
@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize("full", [True, False])
def test_streams_that_cannot_be_written(arguments: list[str], closed: int, full: bool) -> None:
    def prepare() -> None:
        os.close(closed)
        if full:
            os.open("/dev/full", os.O_WRONLY)

    command = [sys.executable, "-c", "from kb_cli.main import main; main()", *arguments]
    done = subprocess.run(command, stdout=-1, stderr=-1, text=True, preexec_fn=prepare, check=False)
    assert done.returncode in (0, 2)
    assert not [word for word in ("Traceback", "kb itself", "Exception ignored") if word in done.stderr]


def test_control_characters_reach_no_terminal(invoke: Invoke, tmp_path: Path) -> None:
    chip = Path(__file__).parents[3] / "topologies" / "one_pe.yaml"
    text = re.sub("(?m)^name:.*$", lambda _: 'name: "a\\e[31m\\x9bred"', chip.read_text())
    (tmp_path / "odd.yaml").write_text(text)
    for more in ([], ["--json"]):
        for command in (["topology", "check"], ["topology", "show"]):
            done = invoke(*command, "odd.yaml", *more)
            assert not set(done.output) & {"\x1b", "\x9b"}


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
        "error: input or output: got a full disk (No space left on device), needs room to write; make room, or name a "
        "folder on another disk\n"
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["plan", "gemm", "--help"]])
def test_help_into_a_closed_pipe_is_quiet(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from kb_cli.main import main; main()", *arguments]
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_of_usage_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for word, said in (("a\x9bb", "a\\x9bb"), ("\udcff", "\\udcff"), ("a" * 9000, "a" * 100)):
        with pytest.raises(SystemExit) as caught:
            main.main(["run", "gemm", word])
        assert caught.value.code == 2
        printed = capsys.readouterr().err
        assert printed.startswith(
            "Usage: kb run [OPTIONS] [BENCH]\nTry 'kb run --help' for help.\n\nError: Got unexpected "
        )
        assert said in printed
        assert printed.isprintable() or set(printed) - set(filter(str.isprintable, printed)) == {"\n"}
        assert max(map(len, printed.splitlines())) < 8100
