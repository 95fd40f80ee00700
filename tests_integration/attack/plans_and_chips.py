"""Attacks on what compilers hand over, commands and plans as JSON, and on files of topologies."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise

from attempt import Ended, fresh, kb, run, wrong_with
from damage import cut, exchanged, flipped
from kinds import Kind, Stage, Tried

from kb_messages import (
    Command,
    DType,
    EpilogueOp,
    EpilogueScope,
    Fill,
    GemmCommand,
    KbError,
    LoadCommand,
    MathAttributes,
    MathCommand,
    MathInput,
    Matrix,
    PipelinePlan,
    StoreCommand,
    TileShape,
    decode_command,
    decode_plan,
    encode_command,
    encode_plan,
)
from kb_plans import TileRoom, count, generate_plan

SQUARE = Matrix.packed(64, 64, DType.F16, 1 << 43)
ROW = Matrix.packed(1, 64, DType.F16)
ROOM = TileRoom(input_nbytes=1 << 20, output_nbytes=1 << 20, register_nbytes=1 << 20)
BIAS = EpilogueOp(op="bias", scope=EpilogueScope.OUTPUT_TILE, operand=ROW)
COMMANDS: dict[str, Command] = {
    "gemm": GemmCommand(a=SQUARE, b=SQUARE, out=SQUARE, tile=TileShape(16, 16, 16), epilogue=(BIAS,)),
    "math": MathCommand(math=MathAttributes(op="add", scalars=(1.5,)), inputs=(MathInput(matrix=SQUARE),), out=SQUARE),
    "load": LoadCommand(src=ROW, dst=SQUARE, fill=Fill(row=1, col=0, immediate=8)),
    "store": StoreCommand(src=SQUARE, dst=SQUARE),
}
"""The commands that attacks start from."""

HOSTILE = (
    "a: &a [x, x]\n" + "".join(f"{new}: &{new} [*{old}, *{old}]\n" for old, new in pairwise("abcdefghi")),
    "[" * 100_000,
    "- " * 100_000,
    "{a: " * 10_000,
    "a: " + "9" * 5000,
    "!" + "t" * 100_000 + " x",
    "'" + "a" * 1_000_000,
    "- x\n" * 200_000,
    'name: "\\e[31m"\nwire_ps_per_mm: 7\ncube: {nodes: {}}\n',
    "name: ../../x\nwire_ps_per_mm: 7\ncube: {nodes: {}}\n",
    'name: x\nwire_ps_per_mm: 7\ncube: {nodes: {"\\e[31m": {kind: hbm, impl: x}}}\n',
    "name: x\nwire_ps_per_mm: 7\nsips: 256\ncubes_per_sip: 256\ncube: {nodes: {a: {kind: hbm, impl: x, count: 9}}}\n",
    "\x00",
    "\ufeff",
    "",
)
"""Texts that some readers of YAML fall over, hang on, or print raw."""


def types_in_commands_and_plans(stage: Stage) -> Iterator[Tried]:
    """One value of a command or a plan as JSON replaced, one bit flipped, or a part cut off."""
    for name, command in COMMANDS.items():
        plan = encode_plan(generate_plan(command, "pe0", ROOM))
        for main, text in ((_plan_it, encode_command(command)), (_count_it, plan)):
            for damage in (exchanged, flipped, cut):
                for data in damage(text, stage.rng, stage.most):
                    path = stage.scratch / "one.json"
                    path.write_bytes(data)
                    yield Tried(f"{main.__name__} {name} {data[:60]!r}", wrong_with(run(main, [str(path)])))


def _plan_it(arguments: list[str]) -> int:
    return _told(arguments, lambda data: _look_at(generate_plan(decode_command(data), "pe0", ROOM)))


def _count_it(arguments: list[str]) -> int:
    return _told(arguments, lambda data: _look_at(decode_plan(data)))


def _told(arguments: list[str], look: object) -> int:
    with open(arguments[0], "rb") as file:
        data = file.read()
    try:
        look(data)  # type: ignore[operator]
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _look_at(plan: PipelinePlan) -> None:
    """Ask *plan* for all that a compiler asks for. No count is negative."""
    counts = count(plan)
    figures = [counts.tiles, counts.macs, counts.streamed_nbytes, *counts.stages.values(), *counts.nbytes.values()]
    assert min(figures) >= 0, f"a negative count: {figures}"
    tiles = plan.tiles[0], plan.tiles[-1], plan.lifetimes, plan.n_stages
    assert len(plan.tiles) == counts.tiles, tiles
    assert decode_plan(encode_plan(plan)) == plan


def topologies(stage: Stage) -> Iterator[Tried]:
    """Damaged and hostile files of topologies, read by `check`, `show` and `run`."""
    whole = (stage.run_dir / "topology.yaml").read_bytes()
    texts = [*flipped(whole, stage.rng, stage.most), *cut(whole, stage.rng, stage.most)]
    texts += [text.encode("utf-8", "surrogatepass") for text in HOSTILE]
    texts += [b"\xff" + whole, whole + b"\xc3", b"#" * (5 << 20)]
    for data in texts:
        folder = fresh(stage.scratch)
        (folder / "chip.yaml").write_bytes(data)
        yield Tried(f"{data[:60]!r}, {len(data)} bytes", _wrong_with_chip(_read(stage, folder)))
        shutil.rmtree(folder)
    for kind in ("pipe", "device", "folder"):
        for _ in range(3):
            folder = fresh(stage.scratch)
            path = folder / "chip.yaml"
            {"pipe": os.mkfifo, "device": lambda at: at.symlink_to("/dev/zero"), "folder": os.mkdir}[kind](path)
            yield Tried(f"a {kind}", _wrong_with_chip(_read(stage, folder)))
            shutil.rmtree(folder)


def _read(stage: Stage, folder: os.PathLike[str]) -> Ended:
    small = ["-p", "M=16", "-p", "N=16", "-p", "K=16"]
    commands = {
        "check": ["topology", "check", "chip.yaml"],
        "show": ["topology", "show", "chip.yaml"],
        "run": ["run", "gemm", *small, "--topology", "chip.yaml", "--out", "out"],
    }
    return run(kb, commands[stage.rng.choice(sorted(commands))], before=lambda: os.chdir(folder))


def _wrong_with_chip(ended: Ended) -> str:
    raw = [char for char in ended.said if not char.isprintable() and char not in "\n\t"]
    return wrong_with(ended) or (f"raw control characters: {raw[:3]}" if raw else "")


KINDS: dict[str, Kind] = {"plans": types_in_commands_and_plans, "topologies": topologies}
