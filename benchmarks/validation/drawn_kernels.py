"""Kernels of grids whose Python source is drawn by a seed: loads, loops, held sums, composites, branches, atomics.

A source defines `make(factor, turns)`, which returns a kernel. The kernel reads `factor` and `turns` from its closure,
and `SCALE` and `ROUNDS` from its globals. A launch may have other values for all four than the launch before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

WIDE = 64
"""The columns of the part of each tensor that a drawn kernel works on."""
_HEAD = """
def helper(tl, x):
    return tl.maximum(x * SCALE, 0.25)

def make(factor, turns):
    def kernel(tl, a, b, c, rows):
        p = {number}
        n = {count}
        at = p * rows
        mine = slice(at, at + rows)
        other = (p * 5 + 3) % n * rows
        v0 = tl.load(a[mine, 0:64])
"""
_TAIL = """
        tl.store(c[mine, 0:64], {last})
    return kernel
"""
_NUMBERS = {
    1: ("tl.program_id()", "tl.num_programs()"),
    2: ("tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)", "tl.num_programs(0) * tl.num_programs(1)"),
}
_LOADS = (
    "{new} = tl.load({tensor}[mine, 0:64])",
    "{new} = tl.load({tensor}[other : other + rows, 0:64])",
    "{new} = tl.load(b[0:rows, 0:64])",
    "{new} = tl.load_async({tensor}[mine, 0:64])",
    "{new} = tl.load_async(b[other : other + rows, 0:64])",
    "{new} = tl.load({tensor}[(at + tl.arange(rows))[:, None], tl.arange(64)[None, :]])",
    "{new} = tl.load({tensor}[(at + tl.arange(rows))[:, None], (63 - tl.arange(64))[None, :]])",
    (
        "{new} = tl.load({tensor}[(at + tl.arange(rows))[:, None], tl.arange(64)[None, :]],"
        " mask=(at + tl.arange(rows) < n * rows - 1)[:, None] & (tl.arange(64) < 61)[None, :], other=1.0)"
    ),
)
_MATH = (
    "{new} = {x} * factor + {y}",
    "{new} = {x} * SCALE",
    "{new} = helper(tl, {x})",
    "{new} = tl.exp({x} - tl.max({x}, axis=1))",
    "{new} = {x} / (tl.sum(tl.abs({x}), axis=1) + 1.0)",
    "{new} = tl.where({x} > {y}, {x}, factor)",
    "{new} = tl.cumsum({x}, axis=1)",
    "{new} = {x}\nfor _ in range(turns):\n    {new} = {new} * {y} + factor",
    "{new} = {x}\nfor _ in range(ROUNDS):\n    {new} = {new} * 0.5 + {y}",
    "{new} = {x} + 0.0\nfor turn in range(p % 3):\n    {new} = {new} + {y}",
)
_SUMS = (
    (
        "held = 0\nfor k in range(0, 64, 16):\n"
        "    held = tl.dot(tl.load(a[mine, k : k + 16]), tl.load(b[k : k + 16, 0:64]), held)\n{new} = held"
    ),
    "held = tl.dot({x}, tl.load(b[0:64, 0:64]), {y})\n{new} = held",
    (
        "held = tl.zeros((rows, 64), 'f32')\nfor k in range(turns):\n"
        "    held = tl.dot({x}, tl.load(b[k * 8 : k * 8 + 64, 0:64]), held)\n{new} = tl.maximum(held, 0.0)"
    ),
    (
        "held = 0.0\nfor k in range(0, 64, 16):\n"
        "    held = held + tl.sum(tl.load(a[mine, k : k + 16]), axis=1)\n{new} = {x} + held"
    ),
    (
        "held = tl.zeros((rows, 1), 'f32')\n"
        "for part in tl.ahead(tl.load_async(b[mine, k : k + 32]) for k in (0, 32)):\n"
        "    held += tl.sum(part, axis=1)\n{new} = {x} * held"
    ),
)
_COMPOSITES = (
    "done = tl.composite('gemm', a[mine, 0:64], b[0:64, 0:64], out=c[mine, 0:64], tile=(16, 32, 64))\ntl.wait(done)",
    (
        "done = tl.composite('gemm', {x}, b[0:64, 0:32], out=c[mine, 0:32], tile=(16, 16, 32), epilogue=(tl.relu(),))\n"
        "tl.wait(done)"
    ),
    (
        "done = tl.composite('gemm', b[0:32, 0:32], b[64:96, 0:32], tile=(16, 16, 16), loop_order='{order}')\n"
        "tl.wait(done)"
    ),
    "later = tl.composite('exp', a[mine, 0:64], out=c[mine, 0:64], tile=(1, 16))\nw = {x} + 1.0\ntl.wait(later)",
    (
        "later = tl.composite('gemm', b[0:16, 0:64], b[64:128, 0:16], tile=(16, 16, 16), b_stream=True)\n"
        "w = {x} * 2.0\ntl.wait(later)"
    ),
)
_STORES = (
    "tl.store({tensor}[mine, 0:64], {x})",
    "tl.store(c[0:rows, 0:64], {x})",
    "tl.store(c[p % 4 * rows : p % 4 * rows + rows, 0:64], {x})",
    "tl.store(c[other : other + rows, 0:64], {x})",
    "tl.store({tensor}[mine, 0:64], {x})\n{new} = tl.load({tensor}[mine, 0:64])",
)
_BRANCHES = (
    "if p % 7 == 3:\n    tl.store(c[0:rows, 0:64], {x})",
    "if p < n // 2:\n    {new} = {x} * 2.0\nelse:\n    {new} = tl.load(b[mine, 0:64])",
    "{new} = {x}\nif p % 2:\n    {new} = tl.exp({x})",
    "if p == n - 1:\n    return",
)
_RARE = (
    "tl.atomic_add(c[mine, 0:64], {x})",
    "tl.materialize({x})",
    "COUNTS.append(1)\n{new} = {x} * (1.0 + len(COUNTS) % 2)",
    "STATE['turns'] = (STATE['turns'] + 1) % 3\n{new} = {x}\nfor _ in range(STATE['turns']):\n    {new} = {new} + 1.0",
    "{new} = {x} + 0.0\nfor name in SET:\n    {new} = {new} * 0.5 + len(name)",
)
_KINDS = (
    *((_LOADS,) * 4),
    *((_MATH,) * 6),
    *((_SUMS,) * 2),
    *((_COMPOSITES,) * 2),
    *((_STORES,) * 3),
    _BRANCHES,
)


class Values(NamedTuple):
    """The values of a launch that a drawn kernel reads from its closure and from its globals."""

    factor: float
    turns: int
    scale: float
    rounds: int


class DrawnKernels:
    """The kernels of the program *source*, made anew for each run, so that no run finds what another one changed."""

    def __init__(self, source: str) -> None:
        self._globals: dict[str, Any] = {"__name__": "drawn", "COUNTS": [], "STATE": {"turns": 0}, "SET": {"x", "yy"}}
        exec(compile(source, "drawn.py", "exec"), self._globals)

    def kernel(self, values: Values) -> Callable[..., None]:
        """The kernel with *values*. The globals of kernels of earlier calls have these values, too."""
        self._globals |= {"SCALE": values.scale, "ROUNDS": values.rounds}
        made: Callable[..., None] = self._globals["make"](values.factor, values.turns)
        return made


def changes_globals(source: str) -> bool:
    """Whether a kernel of *source* changes its globals, so that it does something else when it runs again."""
    return "COUNTS" in source or "STATE" in source


def draw_source(rng: random.Random, axes: int) -> str:
    """The source of a kernel for grids of *axes* axes. All tensors have at least 128 rows and 64 columns."""
    number, count = _NUMBERS[axes]
    lines, names = [_HEAD.format(number=number, count=count).strip("\n")], ["v0"]
    kinds = [rng.choice(_KINDS) for _ in range(rng.choice((1, 1, 2, 3, 4, 6)))]
    if rng.random() < 0.1:
        kinds.append(_RARE)
    for each in kinds:
        template, new = rng.choice(each), f"v{len(names)}"
        order = rng.choice(("mnk", "nmk", "weight_stationary", "input_stationary"))
        step = template.format(new=new, x=rng.choice(names), y=rng.choice(names), tensor=rng.choice("abc"), order=order)
        lines += [f"        {line}" for line in step.split("\n")]
        if f"{new} = " in step:
            names.append(new)
    lines.append(_TAIL.format(last=rng.choice((names[-1], names[-1], *names))).strip("\n"))
    return "\n".join(lines) + "\n"
