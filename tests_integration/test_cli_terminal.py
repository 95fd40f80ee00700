"""`kb` on a pseudo-terminal: what a person sees during a run, after it, and when interrupting it."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from python_copies import COPIES

KB = str(Path(sys.executable).with_name("kb"))
SMALL = ["-p", "M=40", "-p", "N=24", "-p", "K=72", "-p", "tile=16x16x32"]

POLL = """\
import numpy as np
from kb_engine import Benchmark
from msgspec import Struct


def kernel(tl, flag):
    while True:
        found = tl.load(flag)
        tl.free(found)


class Params(Struct):
    pes: int = 2


class Poll(Benchmark[Params]):
    Params = Params

    def inputs(self, p, rng):
        return {"flag": np.zeros((1, 16), np.int32)}

    def launch(self, host, p, tensors):
        flag = host.tensor("flag", tensors["flag"], "i32")
        host.launch(kernel, flag, pes=list(range(p.pes)))
        return {"flag": flag}

    def reference(self, p, inputs):
        return inputs

    def flops(self, p):
        return 0
"""


class Shown(NamedTuple):
    """What `kb` wrote: `out` to standard output, `err` to standard error, with the time of each piece of `err`."""

    code: int
    out: str
    err: str
    frames: list[tuple[float, str]]


class Running(NamedTuple):
    """A command under way: `code` waits for its end."""

    code: Callable[[], int]
    interrupt: Callable[[], None] = lambda: None


def _started(folder: Path, args: Sequence[str], env: dict[str, str], out: int, err: int) -> Running:
    process = subprocess.Popen(
        [KB, *args],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        env=env,
    )
    return Running(lambda: process.wait(60), lambda: process.send_signal(signal.SIGINT))


def _copied(folder: Path, args: Sequence[str], env: dict[str, str], out: int, err: int) -> Running:
    COPIES.begin(folder, ("kb", *args), env, out, err)
    return Running(COPIES.code)


def read(reader: int) -> bytes:
    """The next bytes of a pipe or a terminal; none at its end, which a terminal tells as an error."""
    try:
        return os.read(reader, 1 << 16)
    except OSError:
        return b""


def run(folder: Path, *args: str, columns: int = 80, tty: str = "both", interrupt_at: str = "", **env: str) -> Shown:
    """`kb *args*` on a terminal of *columns*. *tty* says which streams are terminals: `out`, `err` or `both`.

    SIGINT is sent to a `kb` that was started itself when standard error has *interrupt_at*.
    """
    pairs = [pty.openpty() if tty in (name, "both") else os.pipe() for name in ("out", "err")]
    for _, writer in pairs:
        if os.isatty(writer):
            fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "TERM")}
    begun = _started if interrupt_at else _copied
    running = begun(folder, args, {**clean, "TERM": "xterm", **env}, pairs[0][1], pairs[1][1])
    for _, writer in pairs:
        os.close(writer)
    texts = {reader: b"" for reader, _ in pairs}
    frames: list[tuple[float, str]] = []
    left = set(texts)
    while left:
        ready = select.select(sorted(left), [], [], 120)[0]
        assert ready, "kb wrote nothing for two minutes"
        for reader in ready:
            piece = read(reader)
            left -= set() if piece else {reader}
            texts[reader] += piece
            if piece and reader == pairs[1][0]:
                frames.append((time.monotonic(), piece.decode()))
            if interrupt_at and interrupt_at in texts[pairs[1][0]].decode():
                running.interrupt()
                interrupt_at = ""
    code = running.code()
    out, err = (texts[reader].decode().replace("\r\n", "\n") for reader, _ in pairs)
    return Shown(code, out, err, frames)


def lines_of(text: str) -> list[str]:
    """The lines of *text* without colours, and without the blanks at their ends, which have the colour of a cell."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


def numbers(lines: list[str]) -> list[str]:
    """All numbers with the unit behind, in the tables alone, whose rows begin with a name that is known."""
    names = (
        "hbm ",
        "sram ",
        "pe_",
        "link ",
        "HBM ",
        "SRAM ",
        "TCM ",
        "registers ",
        "dma_",
        "fetch ",
        "gemm ",
        "store ",
    )
    rows = [line for line in lines if line.startswith(names)]
    return re.findall(r"(?<!\S)[\d.,]+ (?:%|GB/s|[kM]?B)(?!\S)", "\n".join(rows))


@pytest.mark.parametrize(("chip", "widths"), [("one_pe", (50, 80, 500)), ("one_sip", (80, 500))])
def test_tables_are_as_wide_as_the_terminal_and_no_number_is_cut(
    tmp_path: Path, chip: str, widths: tuple[int, ...]
) -> None:
    args = ("run", "gemm", *SMALL, "--topology", chip, "--levers", "none")
    plain = lines_of(run(tmp_path, *args, tty="err").out)
    for columns in widths:
        shown = run(tmp_path, *args, columns=columns)
        lines = lines_of(shown.out)
        assert shown.code == 0
        assert max(map(len, lines)) <= columns
        assert sorted(numbers(lines)) == sorted(numbers(plain))
    assert [line for line in lines if not line.startswith("simulated in")] == [
        line for line in plain if not line.startswith("simulated in")
    ]


def test_verdicts_have_colours_on_a_terminal_alone(tmp_path: Path) -> None:
    args = ("run", "gemm", *SMALL, "--topology", "one_pe")
    assert "\x1b[32mc: ok, 960 elements" in run(tmp_path, *args).out
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        shown = run(tmp_path, *args, **env)
        assert "\x1b" not in shown.out + shown.err
        assert "c: ok, 960 elements" in shown.out
    assert "\x1b" not in run(tmp_path, *args, tty="err").out
    assert run(tmp_path, "run", "nothing").err.startswith("\x1b[31merror:\x1b[0m ")


def test_a_run_tells_its_phases_and_leaves_no_line(tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n16,16,16\n16,16,32\n")
    shown = run(tmp_path, "run", "gemm", "--shapes", "shapes.csv", "--topology", "one_pe", "--json", columns=120)
    frames = [frame.rstrip() for frame in shown.err.split("\r")]
    for number in (1, 2):
        mine = [frame.removeprefix(f"row {number} of 2, ") for frame in frames if frame.startswith(f"row {number} of")]
        assert mine[0] == "set-up: inputs()"
        for phase in ("pass 1 (time)", "pass 2 (data)", "verification: reference() and tolerance()", "saving"):
            assert phase in mine
    assert frames[-1] == ""
    assert "\n" not in shown.err
    assert [result["verified"] for result in json.loads(shown.out)] == [True, True]


def test_a_long_run_tells_how_far_it_is_a_few_times_a_second(tmp_path: Path) -> None:
    sizes = [text for name in "MNK" for text in ("-p", f"{name}=1024")]
    options = [
        "-p",
        "tile=32x32x32",
        "--no-verify",
        "--topology",
        "one_cube_banked",
    ]  # no tile of banked memory is skipped
    shown = run(tmp_path, "run", "gemm", *sizes, *options, columns=120)
    form = r"pass 1 \(time\)  [\d.]+ .s  ([\d,]+) of ([\d,]+) stages  0 of 8 PEs done( +\d+ s left)?"
    told = [(at, found) for at, text in shown.frames for found in re.findall(form, text)]
    assert len(told) >= 2
    counts = [int(found[0].replace(",", "")) for _, found in told]
    assert counts == sorted(counts)
    # A fetch, a product and two reads for each of 32^3 tiles; a store and a write for each of 32^2 outputs.
    assert {found[1] for _, found in told} == {f"{4 * 32**3 + 2 * 32**2:,}"}
    assert any(found[2] for _, found in told)
    assert len(told) <= 4 * (told[-1][0] - told[0][0]) + 2


def test_standard_error_that_is_no_terminal_gets_nothing(tmp_path: Path) -> None:
    shown = run(tmp_path, "run", "gemm", *SMALL, "--topology", "one_pe", tty="out")
    assert (shown.code, shown.err) == (0, "")
    assert not list(tmp_path.rglob("progress.json*"))


def test_ctrl_c_says_where_each_kernel_stood_and_keeps_the_log(tmp_path: Path) -> None:
    (tmp_path / "poll.py").write_text(POLL)
    shown = run(tmp_path, "run", "poll.py", interrupt_at=" stages  ")
    assert (shown.code, shown.out) == (130, "")
    said = shown.err[shown.err.index("interrupted:") :].replace("\x1b[0m", "").splitlines()
    assert re.fullmatch(
        r"interrupted: in pass 1 \(time\), [\d.]+ .s, [\d,]+ of [\d,]+ stages, 0 of 2 PEs done", said[0]
    )
    assert said[1].startswith("  sip0.cube0.pe0")
    text = (
        r": the kernel waits at poll.py:8 since [\d.]+ ns, 1 command in flight: transfer of poll.py:8 with 0 of 1 tiles"
    )
    # One of the two kernels may run at the moment; the other one waits.
    assert [line for line in said[1:3] if re.search(text, line)]
    (folder,) = (tmp_path / "kb-runs").iterdir()
    assert said[-1] == f"  the files written so far are in kb-runs/{folder.name}"
    assert sorted(path.name for path in folder.iterdir()) == ["bench.py", "log", "progress.json", "topology.yaml"]
    assert json.loads((folder / "progress.json").read_text())["state"] == "interrupted"
    command = [sys.executable, "-m", "kb_dataexec", "info", str(folder / "log"), "--json"]
    info = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert info["records"] > 1000
    refused = subprocess.run([KB, "verify", str(folder)], capture_output=True, text=True, check=False)
    assert (refused.returncode, "got a folder without run.json" in refused.stderr) == (2, True)


ENDLESS = """\
import numpy as np
import triton


@triton.jit
def endless_kernel(x_ptr):
    i = 0
    while i < 10:
        i = i * 1


endless_kernel[(1,)](np.ones(1, np.float32))
"""
"""A script whose kernel issues no command, so that the clock never runs."""


def test_a_launch_of_a_script_is_shown_from_its_begin(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    shown = run(tmp_path, "exec", "endless.py", interrupt_at="pass 1 (time): launch 0000")
    assert shown.code == 130
