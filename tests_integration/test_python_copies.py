"""A copy of a Python that has imported all gives what a Python that was started gives, and changes no later one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from python_copies import COPIES, kb, python

WRONG = "import sys; print('é', sys.argv[1:]); print('x', file=sys.stderr); raise ValueError(sys.argv[1])"


@pytest.mark.parametrize("command", [("-c", WRONG, "a b"), ("-m", "json.tool", "missing.json"), ("mine.py", "5")])
def test_a_copy_writes_and_ends_as_a_start_does(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import sys\nCODE = int(sys.argv[1])\n", encoding="utf-8")
    (tmp_path / "mine.py").write_text("import beside\n\nprint(__name__)\nraise SystemExit(beside.CODE)\n", "utf-8")
    started = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    copied = python(tmp_path, *command)
    assert (copied.returncode, copied.stdout) == (started.returncode, started.stdout)
    assert copied.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_kb_ends_as_a_start_does(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("kb")), "run", "nothing"]
    started = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    copied = kb(tmp_path, *command[1:])
    assert started.returncode == 2
    assert (copied.returncode, copied.stdout, copied.stderr) == (started.returncode, started.stdout, started.stderr)


def test_a_copy_changes_nothing_of_the_next_one(tmp_path: Path) -> None:
    change = "import os, kb_engine, sys; kb_engine.left = 1; os.environ['LEFT'] = '1'; sys.path.append('left')"
    assert python(tmp_path, "-c", change, GIVEN="yes").returncode == 0
    look = "import os, kb_engine, sys; print(hasattr(kb_engine, 'left'), {'LEFT', 'GIVEN'} & set(os.environ), sys.path)"
    shown = python(tmp_path, "-c", look).stdout
    assert shown.startswith("False set() ")
    assert "left" not in shown


def test_a_command_that_is_not_waited_for_leaves_no_answer_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: str) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("python_copies.int", interrupt, raising=False)
        with pytest.raises(KeyboardInterrupt):
            python(tmp_path, "-c", "raise SystemExit(3)")
    assert python(tmp_path, "-c", "raise SystemExit(5)").returncode == 5
    COPIES.end()
    assert python(tmp_path, "-c", "raise SystemExit(6)").returncode == 6


def test_a_program_of_one_line_is_the_module_main(tmp_path: Path) -> None:
    program = "import pickle\nclass Kept: pass\nprint(type(pickle.loads(pickle.dumps(Kept()))) is Kept)"
    assert python(tmp_path, "-c", program).stdout == "True\n"


def test_a_python_that_ended_is_said_and_another_one_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    with pytest.raises(ChildProcessError, match="code -9"):
        python(tmp_path, "-c", kill)
    (tmp_path / "broken.py").write_text("raise SystemExit(7)\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr("python_copies.COPIED", tmp_path / "broken.py")
        for _ in range(2):
            with pytest.raises(ChildProcessError, match="the Python that is copied: got its end, code 7, needs one"):
                python(tmp_path, "-c", "raise SystemExit(3)")
    assert python(tmp_path, "-c", "raise SystemExit(5)").returncode == 5


def test_a_python_that_was_killed_between_two_commands_fails_one_of_them(tmp_path: Path) -> None:
    source = int(python(tmp_path, "-c", "import os; print(os.getppid())").stdout)
    os.kill(source, signal.SIGKILL)
    os.waitid(os.P_PID, source, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ChildProcessError, match="code -9"):
        python(tmp_path, "-c", "raise SystemExit(3)")
    assert python(tmp_path, "-c", "raise SystemExit(5)").returncode == 5


def test_a_variable_that_a_test_sets_for_its_own_process_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ValueError, match="PYTHONPATH: got a variable that Python reads as it begins"):
        kb(tmp_path, "list")


def test_a_variable_that_a_copy_cannot_read_any_more_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="PYTHONHASHSEED: got a variable that Python reads as it begins"):
        kb(tmp_path, "list", PYTHONHASHSEED="7")
