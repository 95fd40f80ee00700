"""The reference: what a program's steps do, by numpy. A step that does not fit raises UnfitError."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from language_layouts import UNSIGNED, LayoutModel
from language_steps import ATOMICS, COUNTS, SIDE, Step, axis_of, key_of, mask_of
from language_values import (
    Array,
    UnfitError,
    Value,
    binary,
    chosen,
    converted,
    integers,
    need,
    product,
    reduced,
    scanned,
    unary,
)

from kb_messages import DType

TAKES_NAN = ("store", "where", "under_mask", "view", "look", "capture", "free")
"""Steps that move elements whatever these are. NaN comes from loads under a mask, and what computes takes none."""


class Model(LayoutModel):
    """One program's values, and what it sees of the memory: inputs `f` and `n`, its own part of `y` and `z`.

    `shared` is what it alone makes of the counts of all programs. `products_round` says that the sums of some product
    depend on the order of additions.
    """

    def __init__(self, memory: dict[str, Value]) -> None:
        super().__init__()
        self.memory = memory
        self.shared = integers(np.zeros((len(COUNTS), SIDE)), DType.I32)
        self.products_round = False
        self.viewed: list[Value] = []
        self._takes_nan = False

    def attempt(self, step: Step) -> bool:
        """Play *step*, or change nothing and return False if it does not fit."""
        before = list(self.values), dict(self.memory), list(self.seen), self.shared
        self._takes_nan = step[0] in TAKES_NAN or step[:2] == ("unary", "isnan")
        try:
            self.play(step)
        except (UnfitError, ZeroDivisionError):
            self.values, self.memory, self.seen, self.shared = before
            return False
        return True

    def pick(self, number: int) -> Any:
        value = super().pick(number)
        need(self._takes_nan or not np.isnan(value.numbers).any())
        return value

    def keep(self, value: Any) -> None:
        need(0 < value.numbers.size <= 1024)
        super().keep(value)

    def load(self, tensor: str, key: tuple[Any, ...], is_async: bool) -> None:
        index = key_of(key, np.arange, np.array)
        self.keep(self.memory[tensor].mapped(lambda array: _taken(array, index)))

    def masked(self, tensor: str, key: tuple[Any, ...], mask: tuple[Any, ...], other: float) -> None:
        value = self.memory[tensor]
        index = key_of(key, np.arange, np.array)
        found = value.mapped(lambda array: _taken(array, index))
        under = mask_of(mask, key[3], np.arange)
        need(under.any())
        need(value.dtype.is_float or not math.isnan(other))
        kept = found.numbers.dtype.type(other)
        self.keep(Value(np.where(under, found.numbers, kept), np.where(under, found.error, 0), value.dtype))

    def unary(self, op: str, number: int) -> None:
        self.keep(unary(op, self.pick(number)))

    def binary(self, op: str, first: int, second: int) -> None:
        self.keep(binary(op, self.pick(first), self.pick(second)))

    def scalar(self, op: str, number: int, other: float, reflected: bool) -> None:
        value = self.pick(number)
        need(value.dtype is not DType.BOOL and (value.dtype.is_float or other == int(other)))
        need(value.dtype not in UNSIGNED or other >= 0)
        filled = np.full((1,) * len(value.shape), other, value.numbers.dtype)
        same = Value(filled, np.zeros(filled.shape), value.dtype)
        self.keep(binary(op, same, value) if reflected else binary(op, value, same))

    def index(self, number: int, step: int, base: int) -> None:
        value = self.pick(number)
        other = integers(np.arange(value.shape[-1]) * step + base, DType.I32)
        if not value.dtype.is_float:
            need(value.dtype in (DType.I8, DType.I16, DType.I32, DType.U8))
            value = converted(value, DType.I32)
        self.keep(binary("add", value, converted(other, value.dtype)))

    def reduction(self, op: str, number: int, axis: int, kept: bool) -> None:
        value = self.pick(number)
        axis = axis_of(value.shape, axis)
        found = reduced(op, value, axis)
        need(kept or len(value.shape) > 1)
        self.keep(found if kept else found.mapped(lambda array: array.squeeze(axis)))

    def total(self, op: str, number: int) -> None:
        value = self.pick(number)
        self.keep(reduced(op, value.mapped(np.ravel), 0))

    def scan(self, op: str, number: int, axis: int, reverse: bool) -> None:
        value = self.pick(number)
        self.keep(scanned(op, value, axis_of(value.shape, axis), reverse))

    def convert(self, number: int, dtype: DType) -> None:
        self.keep(converted(self.pick(number), dtype))

    def where(self, condition: int, first: int, second: int) -> None:
        self.keep(chosen(self.pick(condition), self.pick(first), self.pick(second)))

    def under_mask(self, number: int, mask: tuple[Any, ...], other: int) -> None:
        value = self.pick(number)
        need(len(value.shape) == 2 and value.dtype is not DType.BOOL and (value.dtype not in UNSIGNED or other >= 0))
        under = integers(mask_of(mask, value.shape, np.arange).astype(np.int64), DType.BOOL)
        filled = np.full((1, 1), other, value.numbers.dtype)
        self.keep(chosen(under, value, Value(filled, np.zeros((1, 1)), value.dtype)))

    def view(self, number: int, shape: tuple[int, ...]) -> None:
        value = self.pick(number)
        need(value.numbers.size == np.prod(shape))
        found = value.mapped(lambda array: array.reshape(shape))
        self.keep(found)
        self.viewed += [value, found]

    def dot(self, first: int, second: int, turned: tuple[bool, bool]) -> None:
        self.keep(self._product(*self._factors(first, second, turned), None))

    def sums(self, first: int, second: int, third: int, times: int, keeps_all: bool) -> None:
        a, b = self.pick(first), self.pick(second)
        acc = self.pick(third)
        found = None if acc.dtype not in (DType.F32, DType.I32) else acc
        shape = (a.shape[0], b.shape[-1])
        wanted = DType.I32 if a.dtype is DType.I8 else DType.F32
        found = found if found is not None and (found.shape, found.dtype) == (shape, wanted) else None
        for _ in range(times):
            found = self._product(a, b, found)
            if keeps_all:
                self.keep(found)
        if not keeps_all:
            self.keep(found)

    def stream(self, rows: tuple[int, int], columns: tuple[int, int], depth: int, ahead: int) -> None:
        (row, height), (column, width), found = rows, columns, None
        f = self.memory["f"]
        for k in range(0, SIDE, depth):
            a = f.mapped(lambda array, k=k: array[row : row + height, k : k + depth])
            b = f.mapped(lambda array, k=k: array[k : k + depth, column : column + width])
            found = self._product(a, b, found)
        self.keep(found)

    def ragged(self, op: str, rows: tuple[int, int], end: int, width: int) -> None:
        (row, height), f, total = rows, self.memory["f"], None
        for at in range(0, end, width):
            part = f.mapped(lambda array, at=at: _padded(array[row : row + height, at : min(at + width, end)], width))
            if op != "copy":
                found = reduced(op, part, 1)
                total = found if total is None else binary("add" if op == "sum" else "maximum", total, found)
        if total is not None:
            self.keep(total)
            return
        kept = (slice(row, row + height), slice(0, end))
        numbers, error = (array.copy() for array in self.memory["y"][:2])
        numbers[kept], error[kept] = f.numbers[kept], f.error[kept]
        self.memory["y"] = Value(numbers, error, f.dtype)

    def store(self, number: int, tensor: str, key: tuple[Any, ...], turned: bool, mask: tuple[Any, ...] | None) -> None:
        value, target = self.pick(number), self.memory[tensor]
        need(len(value.shape) == 2 and value.dtype is not DType.BOOL)
        stored = converted(value, target.dtype) if value.dtype is not target.dtype else value
        stored = stored.mapped(np.transpose) if turned else stored
        need(stored.shape == key[3])
        under = None if mask is None else mask_of(mask, key[3], np.arange)
        need(under is None or under.any())
        index = key_of(key, np.arange, np.array)
        numbers, error = target.numbers.copy(), target.error.copy()
        for array, given in ((numbers, stored.numbers), (error, stored.error)):
            array[index] = given if under is None else np.where(under, given, array[index])
        self.memory[tensor] = Value(numbers, error, target.dtype)

    def gemm(self, a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], size: tuple[int, int, int]) -> None:
        m, n, k = size
        f, y = self.memory["f"], self.memory["y"]
        left = f.mapped(lambda array: array[a[0] : a[0] + m, a[1] : a[1] + k])
        right = f.mapped(lambda array: array[b[0] : b[0] + k, b[1] : b[1] + n])
        found = converted(self._product(left, right, None), y.dtype)
        numbers, error = y.numbers.copy(), y.error.copy()
        numbers[c[0] : c[0] + m, c[1] : c[1] + n] = found.numbers
        error[c[0] : c[0] + m, c[1] : c[1] + n] = found.error
        self.memory["y"] = Value(numbers, error, y.dtype)

    def atomic(
        self, op: str, number: int, tensor: str, key: tuple[Any, ...], mask: tuple[Any, ...] | None, keeps: bool
    ) -> None:
        value, target = self.pick(number), self.memory[tensor]
        need(value.shape == key[3] and value.dtype is target.dtype)
        index = key_of(key, np.arange, np.array)
        before = target.mapped(lambda array: _taken(array, index))
        after = value if op == "xchg" else binary(ATOMICS[op], before, value)
        if mask is not None:
            under = mask_of(mask, key[3], np.arange)
            after = Value(*(np.where(under, *each) for each in zip(after[:2], before[:2], strict=True)), value.dtype)
            before = before.mapped(lambda array: np.where(under, array, 0))
        numbers, error = target.numbers.copy(), target.error.copy()
        numbers[index], error[index] = after.numbers, after.error
        self.memory[tensor] = Value(numbers, error, target.dtype)
        if keeps:
            self.keep(before)

    def count(self, op: str, source: str, row: int, column: int, width: int) -> None:
        given = self.memory[source].mapped(lambda array: array[row : row + 1, column : column + width])
        at, shared = COUNTS.index(op), self.shared.numbers.copy()
        part = shared[at : at + 1, column : column + width]
        part[...] = binary(ATOMICS[op], integers(part, DType.I32), converted(given, DType.I32)).numbers
        self.shared = integers(shared, DType.I32)

    def look(self, number: int) -> None:
        self.seen.append(self.pick(number))

    def capture(self, number: int) -> None:
        self.pick(number)

    def free(self, number: int) -> None:
        """A value with views is not freed: its views would go too."""
        need(not any(self.pick(number) is each for each in self.viewed))
        self.drop(number)

    def _product(self, a: Value, b: Value, acc: Value | None) -> Value:
        found = product(a, b, acc)
        self.products_round |= not found.is_exact
        return found

    def _factors(self, first: int, second: int, turned: tuple[bool, bool]) -> tuple[Value, Value]:
        values = self.pick(first), self.pick(second)
        need(all(len(each.shape) == 2 for each in values))
        a, b = (each.mapped(np.transpose) if flip else each for each, flip in zip(values, turned, strict=True))
        return a, b


def _padded(array: Array, width: int) -> Array:
    return np.pad(array, ((0, 0), (0, width - array.shape[1])))


def _taken(array: Array, index: tuple[Any, ...]) -> Array:
    found: Array = np.array(array[index])
    return found
