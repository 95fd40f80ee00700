"""One attempt: a command line run in a process of its own, and what is wrong with how it ended."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SECONDS = 30
MOST_NBYTES = 4 << 30
CODES = {0, 1, 2, 3, 130, 143}
"""The documented exit codes, but for that of a failure of kb itself: no attack may bring a failure about."""

Main = Callable[[list[str]], int | None]


class Ended(NamedTuple):
    """How a process ended. `seconds` and `nbytes` are its time and the most memory that it held."""

    code: int
    said: str
    seconds: float
    nbytes: int


def run(main: Main, arguments: list[str], before: Callable[[], None] | None = None) -> Ended:
    """Call *main* with *arguments* in a forked process, in which *before* is called first."""
    with tempfile.TemporaryFile() as output:
        sys.stdout.flush()
        sys.stderr.flush()
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_the_child(main, arguments, before, output.fileno())
        code, nbytes = _wait(child, begin)
        seconds = time.monotonic() - begin
        output.seek(0)
        return Ended(code, output.read().decode("utf-8", "replace"), seconds, nbytes)


def wrong_with(ended: Ended, damaged: bool = False) -> str:
    """What is wrong with *ended*, or nothing. What is *damaged* must not be found to be ok."""
    if ended.seconds >= SECONDS:
        return f"no end within {SECONDS} s"
    if ended.nbytes > MOST_NBYTES:
        return f"{ended.nbytes >> 20} MiB of memory"
    if "Traceback (most recent call last)" in ended.said:
        return "a traceback: " + ended.said.strip().splitlines()[-1][:160]
    if ended.code not in CODES:
        return f"exit code {ended.code}"
    if ended.code == 2 and "error:" not in ended.said.lower():
        return "no sentence"
    return "damage that passed as ok" if damaged and ended.code == 0 else ""


def _be_the_child(main: Main, arguments: list[str], before: Callable[[], None] | None, output: int) -> None:
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdin = io.TextIOWrapper(io.FileIO(0), encoding="utf-8")
        sys.stdout, sys.stderr = (open(fd, "w", encoding="utf-8", closefd=False) for fd in (1, 2))  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (2 * MOST_NBYTES, 2 * MOST_NBYTES))
        if before is not None:
            before()
        try:
            code = main(arguments) or 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else 1
    except BaseException:  # noqa: BLE001 -- the interpreter would print a traceback and exit with 1
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a benchmark may have closed them, or put something else there
                stream.flush()
        os._exit(code)


def _wait(child: int, begin: float) -> tuple[int, int]:
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10
        if time.monotonic() - begin >= SECONDS:
            os.kill(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10
        time.sleep(0.001)


def kb(arguments: list[str]) -> int | None:
    """The command `kb`."""
    from kb_cli.main import main

    main(arguments)
    return 0


def dataexec(arguments: list[str]) -> int | None:
    """The command line of kb-dataexec."""
    from kb_dataexec.cli.main import main

    return main(arguments)


def fresh(folder: Path, name: str = "attack") -> Path:
    """A new folder below *folder*."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
