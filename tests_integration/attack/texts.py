"""Attacks on the texts that users type and write: sweeps, tables, expressions, command lines, stored results."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from attempt import fresh, kb, run, wrong_with
from damage import RAW, cut, exchanged, flipped
from kinds import Kind, Stage, Tried

from kb_cli.run.records.run_json import write_run

SMALL = ["-p", "N=8", "-p", "K=8", "-p", "tile=8x8x8", "--topology", "one_pe"]
POINTS = ["sweep", "gemm", "-p", "M=8,16", *SMALL, "--jobs", "1", "--out", "swept"]

SWEEP = b"""benchmark: gemm
topology: one_pe
params: {M: {from: 8, to: 32, times: 2}, N: 8, K: [8, 16], tile: 8x8x8}
set: {$.cube.nodes.hbm.bw_gbs: [51.2, 102.4]}
where: [M * bw_gbs < 4000]
cost: bw_gbs ** 2
over: [K]
random: {points: 3, seed: 1}
"""
TABLE = b"layer,M,N,K\nq,8,8,8\nk,16,8,8\n"

BYTES = (
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x00",
    b"\xef\xbb\xbf",
    b"\xff\xfeM\x00",
    b"9" * 5000,
    b'"',
    b"'",
    b"\r",
    b",",
)
"""What is put somewhere into a text."""

PIECES = (
    "M", "2", "0", "-1", "1.5", "10**9", "9**9", "'a'", "'%99999d'", "True", "1e308", "(M, 2)", "[M]", "M.real",
    "f'{M:99999999}'", "int", "max", "log2(M)", "sqrt(M)", "'a'[0]", "{}", "lambda: M", "b'a'", "None", "1j",
    "0x" + "f" * 200, "M if M else 0",
)  # fmt: skip
OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "<",
    "==",
    "in",
    "is",
    "and",
    "or",
    "@",
    ",",
    "if",
)


def _with_bytes(data: bytes, rng: random.Random, most: int) -> Iterator[bytes]:
    """*data* with strange bytes put in, or in place of a part."""
    for _ in range(most):
        at = rng.randrange(len(data) + 1)
        yield data[:at] + rng.choice((*BYTES, *RAW)) + data[at + rng.choice((0, 0, 1, 9)) :]


def _damages(data: bytes, stage: Stage) -> Iterator[bytes]:
    for damage in (_with_bytes, flipped, cut):
        yield from damage(data, stage.rng, stage.most)


def files_of_sweeps(stage: Stage) -> Iterator[Tried]:
    """Sweeps as YAML with strange bytes, flipped bits and cuts."""
    for data in _damages(SWEEP, stage):
        yield _tried(stage, {"a.yaml": data}, ["sweep", "a.yaml", "--jobs", "1", "--random", "2"], data)


def tables(stage: Stage) -> Iterator[Tried]:
    """Lists of points and shapes as CSV with strange bytes, flipped bits and cuts."""
    for data in _damages(TABLE, stage):
        command = ["run", "gemm", "--shapes", "a.csv", "--topology", "one_pe"]
        if stage.rng.random() < 0.5:
            command = ["sweep", "gemm", "--list", "a.csv", "--topology", "one_pe", "--jobs", "1"]
        yield _tried(stage, {"a.csv": data}, command, data)


def stored_points(stage: Stage) -> Iterator[Tried]:
    """Results of points that were changed: they are computed again."""
    folder = fresh(stage.scratch)
    done = run(kb, POINTS, before=_in(folder))
    assert done.code == 0, done.said
    for file in sorted(folder.glob("swept/points/*/*.json")):
        whole = file.read_bytes()
        damaged = [*_damages(whole, stage), *exchanged(whole, stage.rng, stage.most)]
        for data in stage.rng.sample(damaged, min(len(damaged), stage.most)):
            file.write_bytes(data)
            ended = run(kb, POINTS, before=_in(folder))
            wrong = wrong_with(ended) or ("" if ended.code == 0 else f"exit code {ended.code}: {ended.said[-99:]}")
            yield Tried(f"{data[:60]!r}, {len(data)} bytes", wrong)
        file.write_bytes(whole)
    shutil.rmtree(folder)


def expressions(stage: Stage) -> Iterator[Tried]:
    """Expressions made of what computes, what does not, and what grows."""
    for _ in range(4 * stage.most):
        text = _expression(stage.rng, stage.rng.randrange(1, 6))
        option = stage.rng.choice(("--where", "--cost"))
        yield _tried(stage, {}, [*POINTS[:-2], option, text], text.encode())


def _expression(rng: random.Random, levels: int) -> str:
    if not levels or rng.random() < 0.1:
        return rng.choice(PIECES)
    left, right = (_expression(rng, levels - 1) for _ in range(2))
    forms = "({0}) {op} ({1})", "{0} {op} {1}", "max({0}, {1})", "int({0})", "abs({0})", "-{0}", "not {0}"
    form = rng.choice(forms)
    return form.format(left, right, op=rng.choice(OPERATORS))[:999]


WORDS: tuple[list[str], ...] = (
    ["run", "gemm", *SMALL, "-p", "M=8"],
    ["run", "gemm", *SMALL, "-p", "dtype=f16", "--seed", "1"],
    ["sweep", "gemm", *SMALL, "-p", "M=8,16", "--set", "$.cube.nodes.hbm.bw_gbs=3", "--jobs", "1"],
    ["plan", "gemm", "-p", "M=8", "-p", "N=8", "-p", "K=8", "--tile", "8x8x8", "--epilogue", "bias@output_tile"],
    ["probe", "pe0", "hbm0", "--topology", "one_pe", "--nbytes", "64", "--flows", "1"],
    ["probe", "--all", "--topology", "one_pe", "--memories", "hbm", "--heatmap", "a.svg"],
    ["topology", "show", "one_pe", "--part", "sip0.cube0.pe0", "-o", "a.svg"],
    ["topology", "check", "one_pe"],
    ["report", "RUN", "--levers", "1"],
    ["report", "RUN", "-o", "a.html"],
    ["compare", "RUN", "RUN", "--fail-above", "3"],
    ["whatif", "RUN", "--set", "$.cube.nodes.hbm.bw_gbs=3"],
    ["trace", "RUN", "-o", "a.pftrace", "--pe", "sip0.cube0.pe0", "--from", "1", "--to", "9"],
    ["show", "RUN", "name", "--pe", "pe0", "--number", "0"],
    ["runs", "kb-runs", "--prune", "--keep", "3", "--older", "2", "--dry-run"],
    ["verify", "RUN"],
    ["pack", "RUN", "-o", "a.kbrun"],
    ["exec", "a.py", "--autotune", "1"],
    ["new", "a.py"],
)
STRANGE = (
    "\udcff", "\udcc3\udca9", "é", "\x1b[31m", "9" * 5000, "-1", "1e999999999", "nan", "inf", "", " ", "-", "--",
    "..", "/", "~", "/dev/zero", "a\nb", "$.a", "$", "=", ",", ":", "0x10", "٣", "²", "1_0", "None", "[" * 3000,
    "a" * 300, "M=8=9", "{}", "@",
)  # fmt: skip


def words_of_command_lines(stage: Stage) -> Iterator[Tried]:
    """Command lines with one word that is strange, in whole or behind its `=`."""
    for words in WORDS:
        for _ in range(stage.most // 4 + 1):
            changed, at = list(words), stage.rng.randrange(1, len(words))
            name, equals, _ = changed[at].rpartition("=")
            strange = stage.rng.choice(STRANGE)
            changed[at] = f"{name}{equals}{strange}" if stage.rng.random() < 0.7 else strange
            changed = [str(stage.run_dir) if word == "RUN" else word for word in changed]
            if stage.rng.random() < 0.5 and words[0] in ("run", "report", "compare", "whatif", "probe", "verify"):
                changed.append("--json")
            yield _tried(stage, {}, changed, " ".join(changed)[-90:].encode("utf-8", "replace"))


READERS: tuple[list[str], ...] = (
    ["report", "RUN"], ["report", "RUN", "-o", "a.html"], ["compare", "RUN", "RUN", "--blocks"], ["runs", "."],
    ["whatif", "RUN", "--set", "$.cube.nodes.hbm.bw_gbs=3"], ["trace", "RUN", "-o", "a.pftrace"], ["show", "RUN"],
    ["pack", "RUN", "-o", "a.kbrun"], ["topology", "show", "--run", "RUN", "-o", "a.svg"], ["verify", "RUN", "--debug"],
    ["report", "RUN", "--json"], ["compare", "RUN", "RUN", "--json"], ["runs", ".", "--json"],
)  # fmt: skip


def readers_of_runs(stage: Stage) -> Iterator[Tried]:
    """One JSON value of a run folder replaced, for every command that reads runs. run.json has its own hash again."""
    for file in sorted(stage.run_dir.rglob("*.json")):
        name = file.relative_to(stage.run_dir).as_posix()
        for data in exchanged(file.read_bytes(), stage.rng, stage.most // 2 + 1):
            folder = fresh(stage.scratch)
            shutil.copytree(stage.run_dir, folder / "gemm-0", symlinks=True)
            (folder / "gemm-0" / name).write_bytes(data)
            if name == "run.json" and stage.rng.random() < 0.8:
                _seal(folder / "gemm-0", data)
            command = [word.replace("RUN", "gemm-0") for word in stage.rng.choice(READERS)]
            ended = run(kb, command, before=_in(folder))
            yield Tried(f"{command[0]} {name}, {len(data)} bytes", wrong_with(ended))
            shutil.rmtree(folder)


def _seal(folder: Path, data: bytes) -> None:
    """Gives run.json the hash of its content, as somebody does who means to deceive."""
    try:
        write_run(folder, json.loads(data))
    except (
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # no longer an object, or one that no run.json can be
        (folder / "run.json").write_bytes(data)


def _in(folder: Path) -> Callable[[], None]:
    return lambda: os.chdir(folder)


def _tried(stage: Stage, files: dict[str, bytes], command: list[str], what: bytes) -> Tried:
    folder = fresh(stage.scratch)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    ended = run(kb, command, before=_in(folder))
    shutil.rmtree(folder)
    return Tried(f"{command[0]} {what[-90:]!r}", wrong_with(ended))


KINDS: dict[str, Kind] = {
    "files of sweeps": files_of_sweeps,
    "tables": tables,
    "stored points": stored_points,
    "expressions": expressions,
    "words of command lines": words_of_command_lines,
    "readers of runs": readers_of_runs,
}
