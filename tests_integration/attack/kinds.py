"""The kinds of attack. Each yields attempts: what was done in a few words, and what is wrong with how it ended."""

from __future__ import annotations

import errno
import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from attempt import dataexec, fresh, kb, run, wrong_with
from damage import cut, exchanged, flipped, says_the_same
from misbehaving import benchmark_files

NOT_COVERED = {"wall.json", "levers.json"}
"""Files of a run folder that `kb verify` makes no claim about."""
NOT_REGULAR = "pipe", "device", "folder", "link", "nothing"


PRELOADED = (
    "kb_cli.commands.run",
    "kb_cli.commands.finished_runs.verify",
    "kb_components.pe.pe_scheduler",
    "kb_dataexec.cli.convert",
    "kb_dataexec.cli.info",
    "kb_dataexec.cli.run",
    "kb_dataexec.cli.sanitize",
    "kb_dataexec.execute.executor",
    "kb_dataexec.execute.fused",
    "ml_dtypes",
)
"""What attempts import: their processes are copies of this one, and find these loaded."""


class Tried(NamedTuple):
    """One attempt. `wrong` is empty when it was handled well."""

    what: str
    wrong: str


class Stage(NamedTuple):
    """What attacks start from: an untouched run folder, a log as lines of JSON, and a place for copies."""

    run_dir: Path
    lines: Path
    scratch: Path
    rng: random.Random
    most: int


Kind = Callable[[Stage], Iterator[Tried]]


def prepare(scratch: Path, seed: int, most: int) -> Stage:
    """Run a small benchmark and write a log of lines; *most* attempts for each file or kind."""
    for module in PRELOADED:
        importlib.import_module(module)
    scratch.mkdir(parents=True, exist_ok=True)
    out = scratch / "runs"
    small = ["-p", "M=48", "-p", "N=40", "-p", "K=32", "-p", "tile=16x16x16", "--topology", "one_pe"]
    done = run(kb, ["run", "gemm", *small, "--keep", "all", "--out", str(out)])
    assert done.code == 0, done.said
    (run_dir,) = out.glob("gemm-*")
    return Stage(run_dir, _write_lines(scratch / "lines"), scratch, random.Random(seed), most)


def _write_lines(folder: Path) -> Path:
    """The documented log of lines of a product, with a dependency, a row of a table, and its arrays beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    a, b = (np.random.default_rng(0).random(shape, np.float32) for shape in ((4, 8), (8, 4)))
    for name, array in (("a", a), ("b", b), ("c", a.astype(np.float64) @ b)):
        np.save(folder / f"{name}.npy", array)
    operands = [
        f'{{"role": "{role}", "owner": 1024, "offset": {at}, "rows": {rows}, "row_nbytes": {nbytes}, "dtype": "f32"}}'
        for role, at, rows, nbytes in (("A", 0, 4, 32), ("B", 128, 8, 16), ("OUT", 4096, 4, 16))
    ]
    text = f'{{"kind": "gemm", "name": "g", "t_start_ps": 5, "operands": [{", ".join(operands)}]'
    kernel = '{"table": "kernels", "launch": 0, "pe": "p", "t_called_ps": 0, "t_target_ps": 1, "t_start_ps": 1'
    lines = [f"{text}}}", f'{text}, "depends_on": [0]}}', f'{kernel}, "t_end_ps": 9}}']
    path = folder / "log.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def flips_of_a_run(stage: Stage) -> Iterator[Tried]:
    """One bit of one file of a run folder: `kb verify` must see it."""
    yield from _damaged_run(stage, flipped)


def cuts_of_a_run(stage: Stage) -> Iterator[Tried]:
    """One file of a run folder cut off."""
    yield from _damaged_run(stage, cut)


def types_in_a_run(stage: Stage) -> Iterator[Tried]:
    """One JSON value of a run folder replaced by one of another type."""
    yield from _damaged_run(stage, exchanged, ".json")


def _damaged_run(stage: Stage, damage: Callable[..., Iterator[bytes]], suffix: str = "") -> Iterator[Tried]:
    for file in sorted(path for path in stage.run_dir.rglob("*") if path.is_file() and path.name.endswith(suffix)):
        name = file.relative_to(stage.run_dir).as_posix()
        for data in damage(file.read_bytes(), stage.rng, stage.most):
            folder = _copy_with(stage, stage.run_dir, name, data)
            damaged = name not in NOT_COVERED and not says_the_same(data, file.read_bytes())
            yield Tried(f"{name}, {len(data)} bytes", wrong_with(run(kb, ["verify", str(folder)]), damaged))
            shutil.rmtree(folder)


def flips_of_a_log(stage: Stage) -> Iterator[Tried]:
    """One bit of one file of a log folder, read by `info`, `run` and `sanitize`."""
    yield from _damaged_log(stage, flipped)


def cuts_of_a_log(stage: Stage) -> Iterator[Tried]:
    """One file of a log folder cut off."""
    yield from _damaged_log(stage, cut)


def types_in_a_log(stage: Stage) -> Iterator[Tried]:
    """One value of a log's manifest replaced by one of another type."""
    yield from _damaged_log(stage, exchanged, ".json")


def _damaged_log(stage: Stage, damage: Callable[..., Iterator[bytes]], suffix: str = "") -> Iterator[Tried]:
    log, memory = stage.run_dir / "log", str(stage.run_dir / "memory")
    for file in sorted(path for path in log.iterdir() if path.name.endswith(suffix)):
        for data in damage(file.read_bytes(), stage.rng, stage.most):
            folder = _copy_with(stage, log, file.name, data)
            command = stage.rng.choice((["info"], ["run", "--memory", memory], ["sanitize"]))
            ended = run(dataexec, [command[0], str(folder), *command[1:]])
            # Sanitize looks at a log without a manifest as one that was cut off.
            damaged = command[0] != "sanitize" and not says_the_same(data, file.read_bytes())
            yield Tried(f"{command[0]} {file.name}, {len(data)} bytes", wrong_with(ended, damaged))
            shutil.rmtree(folder)


def damage_of_a_memory(stage: Stage) -> Iterator[Tried]:
    """Flipped bits, cuts and other types in the files of a memory: kb-dataexec must not fall over."""
    memory, log = stage.run_dir / "memory", str(stage.run_dir / "log")
    for file in sorted(memory.iterdir()):
        kinds = [flipped, cut] + ([exchanged] if file.suffix == ".json" else [])
        for damage in kinds:
            for data in damage(file.read_bytes(), stage.rng, stage.most):
                folder = _copy_with(stage, memory, file.name, data)
                ended = run(dataexec, ["run", log, "--memory", str(folder)])
                yield Tried(f"{damage.__name__} {file.name}, {len(data)} bytes", wrong_with(ended))
                shutil.rmtree(folder)


def damaged_lines(stage: Stage) -> Iterator[Tried]:
    """Logs of lines with flipped bits, cuts, and fields of other types."""
    whole = stage.lines.read_bytes()
    line, *_, row = whole.splitlines(keepends=True)
    texts = [*flipped(whole, stage.rng, stage.most), *cut(whole, stage.rng, stage.most)]
    texts += [text + b"\n" + line for each in (line, row) for text in exchanged(each, stage.rng, stage.most)]
    for data in texts:
        path = fresh(stage.scratch) / "log.jsonl"
        path.write_bytes(data)
        command = stage.rng.choice(("info", "run", "sanitize", "convert"))
        more = {"convert": [str(path.parent / "out")], "run": _inputs(stage)}.get(command, [])
        yield Tried(f"{command} {data[:60]!r}", wrong_with(run(dataexec, [command, str(path), *more])))
        shutil.rmtree(path.parent)


def _inputs(stage: Stage) -> list[str]:
    folder = stage.lines.parent
    given = [f"0x1000000000000={folder / 'a.npy'}", f"0x1000000000080={folder / 'b.npy'}"]
    return [word for each in given for word in ("--input", each)]


def no_regular_files(stage: Stage) -> Iterator[Tried]:
    """Pipes, devices, folders and links where files are expected: an open that waits would hang."""
    names = sorted(path.relative_to(stage.run_dir).as_posix() for path in stage.run_dir.rglob("*") if path.is_file())
    for number, name in enumerate(names):
        turn = number % len(NOT_REGULAR)
        for kind in (*NOT_REGULAR[turn:], *NOT_REGULAR[:turn])[: stage.most]:
            folder = _copy_with(stage, stage.run_dir, name, None)
            _make(folder / name, kind, stage.run_dir / name)
            ended = run(kb, ["verify", str(folder)])
            yield Tried(f"{name} is a {kind}", wrong_with(ended, damaged=name not in NOT_COVERED))
            shutil.rmtree(folder)


def _make(path: Path, kind: str, original: Path) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(original)


def benchmarks_that_misbehave(stage: Stage) -> Iterator[Tried]:
    """Benchmark files that are wrong in every method."""
    for name, text in benchmark_files(3 * stage.most // 2):
        folder = fresh(stage.scratch)
        (folder / "bench.py").write_text(text, encoding="utf-8")
        out = folder / "out"
        arguments = ["run", str(folder / "bench.py"), "--topology", "one_pe", "--out", str(out)]
        ended = run(kb, arguments, before=lambda folder=folder: os.chdir(folder))  # type: ignore[misc]
        wrong = wrong_with(ended)
        left = [path.name for path in folder.rglob(".*") if path.is_dir()]
        if not wrong and ended.code in (2, 3) and left:
            wrong = f"a folder that was left behind: {left[0]}"
        yield Tried(name, wrong)
        shutil.rmtree(folder)


def kills(stage: Stage) -> Iterator[Tried]:
    """SIGKILL and SIGTERM at random moments of runs into one folder: what is there verifies, nothing stays for ever."""
    out = stage.scratch / "killed"
    command = [sys.executable, "-c", "from kb_cli.main import main; main()", "run", "gemm", "-p", "M=64", "-p", "N=64"]
    command += ["-p", "K=64", "--topology", "one_pe", "--keep", "all", "--out", str(out)]
    for number in range(max(1, stage.most // 4)):
        sent = signal.SIGTERM if number % 2 else signal.SIGKILL
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(stage.rng.uniform(0, 1.2))
        process.send_signal(sent)
        _, said = process.communicate(timeout=30)
        wrong = "a traceback" if "Traceback" in said else _left_by_kill(out, sent)
        yield Tried(f"{sent.name} number {number}", wrong)
    last = run(kb, command[3:])
    hidden = [path.name for path in out.glob(".*")]
    yield Tried("a run after them all", wrong_with(last) or (f"hidden folders: {hidden}" if hidden else ""))


def _left_by_kill(out: Path, sent: signal.Signals) -> str:
    for folder in out.glob("gemm-*"):
        ended = run(kb, ["verify", str(folder)])
        if ended.code != 0:
            return f"{folder.name} does not verify: {ended.said[:120]}"
    hidden = [path.name for path in out.glob(".*")] if sent is signal.SIGTERM else []
    own = [name for name in hidden if not _is_of_the_killed(name)]
    return f"hidden folders: {own}" if own else ""


def _is_of_the_killed(name: str) -> bool:
    """Whether *name* may be of a process that SIGKILL ended: the next run that commits takes such folders away."""
    process = name.rsplit(".", 1)[-1].partition("-")[0]
    return process.isdigit() and not Path(f"/proc/{process}").exists()


def full_disk(stage: Stage) -> Iterator[Tried]:
    """ENOSPC from the n-th write of a run on, for ever later writes."""
    for after in range(0, 3 * stage.most, 3):
        out = fresh(stage.scratch)
        arguments = ["run", "gemm", "-p", "M=48", "-p", "N=40", "-p", "K=32", "--topology", "one_pe", "--keep", "all"]
        ended = run(kb, [*arguments, "--out", str(out)], before=lambda after=after: _fill_up(after))  # type: ignore[misc]
        wrong = wrong_with(ended)
        if not wrong and ended.code == 2 and str(out) not in ended.said:
            wrong = f"the folder is not named: {ended.said.strip()[:160]}"
        left = [path.name for path in out.glob("*")]
        if not wrong and ended.code == 2 and left:
            wrong = f"a folder of a failed run: {left}"
        yield Tried(f"full after {after} bytes-writing calls", wrong)
        shutil.rmtree(out)
        if ended.code == 0:
            return


def _fill_up(after: int) -> None:
    """Let `os.write`, file writes below `open`, and new folders fail with ENOSPC after *after* openings for writing."""
    import builtins
    import io
    import pathlib

    real_open, count = builtins.open, [0]

    def refuse(path: object) -> None:
        count[0] += 1
        if count[0] > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def opening(file: object, mode: str = "r", *rest: object, **more: object) -> object:
        if isinstance(file, (str, os.PathLike)) and set(mode) & set("wax+"):
            refuse(file)
        return real_open(file, mode, *rest, **more)  # type: ignore[call-overload]

    real_mkdir = pathlib.Path.mkdir

    def mkdir(self: Path, *rest: object, **more: object) -> None:
        refuse(self)
        real_mkdir(self, *rest, **more)  # type: ignore[arg-type]

    builtins.open = io.open = opening  # type: ignore[assignment]
    pathlib.Path.mkdir = mkdir  # type: ignore[method-assign,assignment]


def runs_at_once(stage: Stage) -> Iterator[Tried]:
    """Up to eight runs into one folder at once, over and over: what is there in the end verifies."""
    out = stage.scratch / "together"
    code = "from kb_cli.main import main; main()"
    arguments = ["run", "gemm", "-p", "M=64", "-p", "N=64", "-p", "K=64", "--topology", "one_pe", "--keep", "all"]
    for _ in range(max(1, stage.most // 50)):
        command = [sys.executable, "-c", code, *arguments, "--out", str(out)]
        processes = [
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(min(8, stage.most + 1))
        ]
        for process in processes:
            _, said = process.communicate(timeout=120)
            yield Tried("one of them", "" if process.returncode == 0 else f"exit {process.returncode}: {said[-160:]}")
        (folder,) = out.glob("gemm-*")
        yield Tried("verify what they left", wrong_with(run(kb, ["verify", str(folder)])))
        hidden = [path.name for path in out.glob(".*")]
        yield Tried("hidden folders", f"hidden folders: {hidden}" if hidden else "")


def _copy_with(stage: Stage, source: Path, name: str, data: bytes | None) -> Path:
    """A copy of the folder *source* whose file *name* holds *data*, or is not there. The other files are hard links."""
    folder = fresh(stage.scratch)
    for path in source.rglob("*"):
        target = folder / path.relative_to(source)
        if path.is_dir():
            target.mkdir(exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.relative_to(source).as_posix() != name:
            os.link(path, target)
        elif data is not None:
            target.write_bytes(data)
    return folder


KINDS: dict[str, Kind] = {
    "bits of a run folder": flips_of_a_run,
    "cuts of a run folder": cuts_of_a_run,
    "types in a run folder": types_in_a_run,
    "no regular files": no_regular_files,
    "bits of a log folder": flips_of_a_log,
    "cuts of a log folder": cuts_of_a_log,
    "types in a log folder": types_in_a_log,
    "a memory folder": damage_of_a_memory,
    "lines of JSON": damaged_lines,
    "benchmark files": benchmarks_that_misbehave,
    "kills": kills,
    "a full disk": full_disk,
    "runs at once": runs_at_once,
}
