"""A Python that has imported what runs need. It runs what it is asked for in copies of itself, one after the other.

Its argument is the descriptor of a socket. A request has a line of JSON, `{"command": [...], "cwd": ..., "env": ...}`,
and the descriptors of standard output and standard error with its first byte. The answer is a line with the exit code.
`command` is what follows `python` on a command line, or `kb` and its arguments.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import runpy
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType

from kb_cli.main import COMMANDS, command_module

PRELOADED = (
    *map(command_module, COMMANDS),
    "kb_cli.entry",
    "kb_components.pe.pe_scheduler",
    "kb_dataexec.execute.executor",
    "kb_dataexec.execute.fused",
    "kernbench",
    "ml_dtypes",
    "numpy.ma",
    "pytest",
)
"""What most commands import. What they import beyond, each of them imports itself."""
PRELOADED_IF_INSTALLED = ("kb_triton",)
"""No package that kb-cli asks for: the tests of kb-cli alone run without it."""


def main() -> None:
    for module in (*PRELOADED, *filter(find_spec, PRELOADED_IF_INSTALLED)):
        importlib.import_module(module)
    gc.freeze()  # a copy that collects garbage does not copy the pages of what it was born with
    asking = socket.socket(fileno=int(sys.argv[1]))
    while True:
        begin, streams, *_ = socket.recv_fds(asking, 1, 2)
        if not begin:
            return
        with asking.makefile("rb") as rest:
            asked = json.loads(begin + rest.readline())
        child = os.fork()
        if child == 0:
            asking.close()
            _be_the_copy(asked["cwd"], asked["env"], streams)
            _run(asked["command"])
            return
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        asking.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _be_the_copy(cwd: str, env: dict[str, str], streams: Sequence[int]) -> None:
    for number, opened in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    lines = io.FileIO(2, "w", closefd=False)
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(
        io.BufferedWriter(lines), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    sys.dont_write_bytecode = True  # a file that a test writes anew may have the time and the size of the one before
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)


def _run(command: Sequence[str]) -> None:
    first, *more = command
    if first == "-m":
        sys.argv, sys.path[:0] = more, [os.getcwd()]
        runpy.run_module(more[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv, sys.path[:0] = ["-c", *more[1:]], [""]
        sys.modules["__main__"] = program = ModuleType("__main__")
        exec(compile(more[0], "<string>", "exec"), vars(program))
    elif first == "kb":
        from kb_cli.entry import main as kb

        sys.argv = list(command)
        kb()
    else:
        path = os.path.abspath(first)
        sys.argv, sys.path[:0] = list(command), [os.path.dirname(path)]
        runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main()
