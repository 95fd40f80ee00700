"""Commands that tests run in processes of their own: `kb` and `python`, in copies of a Python that has imported all.

    kb(folder, "run", "gemm", "--json")
    python(folder, "mine.py")

A start of Python and the imports of a run take 0.7 s of a core, a copy takes none. A test of what a start itself does
starts `kb` itself: its signals, its terminal, its first imports, and the variables that Python reads as it begins.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

COPIED = Path(__file__).with_name("copied_python.py")


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of *environment* that Python reads as it begins."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


READ_EARLY = _read_early(os.environ)
"""Those of the tests, before any of them changed one."""


class PythonCopies:
    """One Python that was started, and is copied for every command. It starts at the first one."""

    def __init__(self) -> None:
        self._source: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def run(self, folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """What *command* gave, which ran in *folder* with these variables in addition."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            self.begin(folder, command, {**os.environ, **environment}, out.fileno(), err.fileno())
            code = self.code()
            texts = []
            for each in (out, err):
                each.seek(0)
                texts.append(each.read().decode("utf-8"))
            return subprocess.CompletedProcess(command, code, *texts)

    def begin(self, folder: Path, command: Sequence[str], environment: dict[str, str], out: int, err: int) -> None:
        """Run *command*, which writes to the descriptors *out* and *err*. `code` waits for its end.

        ValueError for a variable that Python reads as it begins and that differs: a copy has begun already.
        ChildProcessError where the Python that is copied has ended. The next command starts another one.
        """
        differ = _read_early(environment).items() ^ READ_EARLY.items()
        if early := sorted({name for name, _ in differ}):
            raise ValueError(f"{', '.join(early)}: got a variable that Python reads as it begins, needs a start of it")
        if self._source is None:
            self._source = _started()
        _, asking = self._source
        asked = json.dumps({"command": command, "cwd": str(folder), "env": environment}).encode()
        try:
            socket.send_fds(asking, [asked[:1]], [out, err])
            asking.sendall(asked[1:] + b"\n")
        except OSError:
            raise self._ended() from None

    def code(self) -> int:
        """The exit code of the command that was begun.

        ChildProcessError where the Python that is copied has ended. The next command starts another one.
        """
        assert self._source is not None
        try:
            with self._source[1].makefile() as answers:
                code = answers.readline()
        except OSError:
            raise self._ended() from None
        except BaseException:  # its time is up, or it was interrupted: the next answer would be this command's
            self.end()
            raise
        if not code:
            raise self._ended()
        return int(code)

    def _ended(self) -> ChildProcessError:
        """The error where the source has ended. Forgets the source."""
        assert self._source is not None
        source, _ = self._source
        self.end()
        return ChildProcessError(
            f"the Python that is copied: got its end, code {source.returncode}, needs one that answers; "
            "look at what it wrote to standard error"
        )

    def end(self) -> None:
        """Kill the Python that is copied, and the copy that it waits for."""
        if self._source is not None:
            (source, asking), self._source = self._source, None
            asking.close()
            os.killpg(source.pid, signal.SIGKILL)
            source.wait()


def _started() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A Python to copy, and the socket on which it is asked to."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a copy has no threads of its source
    asking, asked = socket.socketpair()
    with asked:
        command = [sys.executable, "-P", str(COPIED), str(asked.fileno())]
        return subprocess.Popen(command, env=env, pass_fds=[asked.fileno()], start_new_session=True), asking


COPIES = PythonCopies()
atexit.register(COPIES.end)


def kb(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`kb *args*` in *folder*, as a user's shell would run it."""
    return COPIES.run(folder, "kb", *args, **environment)


def python(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python *args*` in *folder*: a file, `-c` or `-m` first."""
    return COPIES.run(folder, *args, **environment)
