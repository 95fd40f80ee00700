"""A kernel that plays a program's steps by `tl`."""

from __future__ import annotations

from operator import add, and_, eq, floordiv, ge, gt, le, lt, mod, mul, ne, or_, sub, truediv, xor
from typing import Any

import numpy as np
from language_layouts import LayoutKernel
from language_steps import COUNTS, SIDE, Step, axis_of, key_of, mask_of

from kb_messages import DType

OPERATORS = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": truediv,
    "floordiv": floordiv,
    "mod": mod,
    "bit_and": and_,
    "bit_or": or_,
    "bit_xor": xor,
    "lt": lt,
    "le": le,
    "gt": gt,
    "ge": ge,
    "eq": eq,
    "ne": ne,
}


class Kernel(LayoutKernel):
    """One program of `tl`. `memory` holds `f`, `n` and `ids`, and the parts of `y` and `z` that the program writes."""

    def __init__(self, tl: Any, memory: dict[str, Any]) -> None:
        super().__init__()
        self.tl, self.memory = tl, memory

    def load(self, tensor: str, key: tuple[Any, ...], is_async: bool) -> None:
        call = self.tl.load_async if is_async else self.tl.load
        self.keep(call(self.memory[tensor][self._key(key)]))

    def masked(self, tensor: str, key: tuple[Any, ...], mask: tuple[Any, ...], other: float) -> None:
        under = mask_of(mask, key[3], self.tl.arange)
        self.keep(self.tl.load(self.memory[tensor][self._key(key)], under, other))

    def unary(self, op: str, number: int) -> None:
        value = self.pick(number)
        self.keep(-value if op == "neg" else getattr(self.tl, op)(value))

    def binary(self, op: str, first: int, second: int) -> None:
        self.keep(self._apply(op, self.pick(first), self.pick(second)))

    def scalar(self, op: str, number: int, other: float, reflected: bool) -> None:
        value = self.pick(number)
        self.keep(self._apply(op, other, value) if reflected else self._apply(op, value, other))

    def index(self, number: int, step: int, base: int) -> None:
        value = self.pick(number)
        self.keep(value + (self.tl.arange(value.shape[-1]) * step + base))

    def reduction(self, op: str, number: int, axis: int, kept: bool) -> None:
        value = self.pick(number)
        self.keep(getattr(self.tl, op)(value, axis=axis_of(value.shape, axis), keep_dims=kept))

    def total(self, op: str, number: int) -> None:
        self.keep(getattr(self.tl, op)(self.pick(number)).reshape(1))

    def scan(self, op: str, number: int, axis: int, reverse: bool) -> None:
        value = self.pick(number)
        self.keep(getattr(self.tl, op)(value, axis_of(value.shape, axis), reverse))

    def convert(self, number: int, dtype: DType) -> None:
        self.keep(self.pick(number).to(dtype))

    def where(self, condition: int, first: int, second: int) -> None:
        self.keep(self.tl.where(*(self.pick(each) for each in (condition, first, second))))

    def under_mask(self, number: int, mask: tuple[Any, ...], other: int) -> None:
        value = self.pick(number)
        self.keep(self.tl.where(mask_of(mask, value.shape, self.tl.arange), value, other))

    def view(self, number: int, shape: tuple[int, ...]) -> None:
        self.keep(self.tl.reshape(self.pick(number), shape))

    def dot(self, first: int, second: int, turned: tuple[bool, bool]) -> None:
        a, b = (self.pick(each) for each in (first, second))
        self.keep(self.tl.dot(a.T if turned[0] else a, b.T if turned[1] else b))

    def sums(self, first: int, second: int, third: int, times: int, keeps_all: bool) -> None:
        a, b, acc = (self.pick(each) for each in (first, second, third))
        wanted = DType.I32 if a.dtype is DType.I8 else DType.F32
        if (acc.shape, acc.dtype) != ((a.shape[0], b.shape[-1]), wanted):
            acc = 0
        for _ in range(times):
            acc = self.tl.dot(a, b, acc)
            if keeps_all:
                self.keep(acc)
        if not keeps_all:
            self.keep(acc)

    def stream(self, rows: tuple[int, int], columns: tuple[int, int], depth: int, ahead: int) -> None:
        (row, height), (column, width), f = rows, columns, self.memory["f"]
        pairs = (
            (
                self.tl.load_async(f[row : row + height, k : k + depth]),
                self.tl.load_async(f[k : k + depth, column : column + width]),
            )
            for k in range(0, SIDE, depth)
        )
        acc: Any = 0
        for a, b in self.tl.ahead(pairs, ahead):
            acc = self.tl.dot(a, b, acc)
        self.keep(acc)

    def ragged(self, op: str, rows: tuple[int, int], end: int, width: int) -> None:
        (row, height), f, y = rows, self.memory["f"], self.memory["y"]
        down, total = (self.tl.arange(height) + row)[:, None], None
        for at in range(0, end, width):
            along = (self.tl.arange(width) + at)[None, :]
            under = (down < row + height) & (along < end)
            part = self.tl.load(f[down, along], under, 0)
            if op == "copy":
                self.tl.store(y[down, along], part, under)
                continue
            found = getattr(self.tl, op)(part, axis=1, keep_dims=True)
            total = found if total is None else self._apply("add" if op == "sum" else "maximum", total, found)
        if total is not None:
            self.keep(total)

    def store(self, number: int, tensor: str, key: tuple[Any, ...], turned: bool, mask: tuple[Any, ...] | None) -> None:
        value, target = self.pick(number), self.memory[tensor]
        if value.dtype is not target.dtype:
            value = value.to(target.dtype)
        if turned:
            value = self.tl.permute(value, 1, 0)
        under = None if mask is None else mask_of(mask, key[3], self.tl.arange)
        self.tl.store(target[self._key(key)], value, under)

    def gemm(self, a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], size: tuple[int, int, int]) -> None:
        (m, n, k), f = size, self.memory["f"]
        left, right = f[a[0] : a[0] + m, a[1] : a[1] + k], f[b[0] : b[0] + k, b[1] : b[1] + n]
        out = self.memory["y"][c[0] : c[0] + m, c[1] : c[1] + n]
        self.tl.wait(self.tl.composite("gemm", left, right, out=out, tile=(8, 8, 8)))

    def atomic(
        self, op: str, number: int, tensor: str, key: tuple[Any, ...], mask: tuple[Any, ...] | None, keeps: bool
    ) -> None:
        call = getattr(self.tl, f"atomic_{op}")
        under = None if mask is None else mask_of(mask, key[3], self.tl.arange)
        before = call(self.memory[tensor][self._key(key)], self.pick(number), under)
        if keeps:
            self.keep(before)

    def count(self, op: str, source: str, row: int, column: int, width: int) -> None:
        given, at = self.memory[source][row : row + 1, column : column + width], COUNTS.index(op)
        counts = self.memory["counts"][at : at + 1, column : column + width]
        getattr(self.tl, f"atomic_{op}")(counts, self.tl.load(given).to("i32"))

    def look(self, number: int) -> None:
        self.seen.append(np.array(self.tl.materialize(self.pick(number))))

    def capture(self, number: int) -> None:
        self.tl.capture("value", self.pick(number))

    def free(self, number: int) -> None:
        value = self.values.pop(number % len(self.values))
        self.tl.wait(value)
        self.tl.free(value)

    def _key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return key_of(key, self.tl.arange, self._listed)

    def _listed(self, rows: tuple[int, ...]) -> Any:
        """Rows as loaded integers if `ids`, which counts up, has them side by side; otherwise as a list."""
        if "ids" in self.memory and rows == tuple(range(rows[0], rows[0] + len(rows))):
            return self.tl.load(self.memory["ids"][rows[0] : rows[0] + len(rows)])
        return np.array(rows)

    def _apply(self, op: str, x: Any, y: Any) -> Any:
        return OPERATORS[op](x, y) if op in OPERATORS else getattr(self.tl, op)(x, y)


def kernel(
    tl: Any,
    f: Any,
    n: Any,
    ids: Any,
    y: Any,
    z: Any,
    counts: Any,
    steps: tuple[Step, ...],
    seen: dict[int, list[Any]] | None,
) -> None:
    """The steps of one program, whose parts of f, n, y and z are SIDE rows. *seen*, if given, gets what it looks at.

    Without it the program reads no integers that say where elements are.
    """
    own = slice(tl.program_id() * SIDE, (tl.program_id() + 1) * SIDE)
    parts = {"f": Rows(f, own.start), "n": Rows(n, own.start), "y": Rows(y, own.start), "z": Rows(z, own.start)}
    player = Kernel(tl, parts if seen is None else {**parts, "ids": ids, "counts": counts})
    for step in steps:
        player.play(step)
    if seen is not None:
        seen[tl.program_id()] = player.seen


class Rows:
    """The rows of *tensor* from *start* on, indexed by rows and columns."""

    def __init__(self, tensor: Any, start: int) -> None:
        self._tensor, self._start = tensor, start
        self.dtype = tensor.dtype

    def __getitem__(self, key: tuple[Any, Any]) -> Any:
        rows, columns = key
        if isinstance(rows, slice):
            rows = slice(rows.start + self._start, rows.stop + self._start, rows.step)
        else:
            rows = rows + self._start
        return self._tensor[rows, columns]
