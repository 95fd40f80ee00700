"""Steps that move, choose, count and retype elements, and random numbers: by `tl`, and by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from language_steps import Player, axis_of
from language_values import Array, Value, integers, need

from kb_dataexec import numpy_dtype
from kb_messages import DType

BITS = ("popcount", "clz", "ffs", "brev")
PAIRS = ("join", "interleave", "cat")
RETYPED = {
    DType.F32: DType.I32, DType.F16: DType.I16, DType.BF16: DType.I16, DType.I8: DType.U8, DType.U8: DType.I8,
    DType.I16: DType.U16, DType.I32: DType.U32, DType.U32: DType.I32, DType.U16: DType.I16,
}  # fmt: skip
"""What a value is taken for: floats as integers, and integers with another sign."""
UNSIGNED = (DType.U8, DType.U16, DType.U32)


def places(count: int, step: int, base: int, length: int, numbers: Any) -> Any:
    """*count* places from 0 to *length* - 1, some of them several times."""
    return (numbers(count) * step + base) % length


class LayoutKernel(Player):
    """The steps by `tl`."""

    tl: Any

    def ordered(self, op: str, number: int, axis: int, k: int, descending: bool) -> None:
        value = self.pick(number)
        if op == "sort":
            self.keep(self.tl.sort(value, axis_of(value.shape, axis), descending))
        elif op == "topk":
            self.keep(self.tl.topk(value, k))
        else:
            self.keep(self.tl.flip(value, axis % len(value.shape)))

    def gathered(self, number: int, axis: int, count: int, step: int, base: int) -> None:
        value = self.pick(number)
        at = axis % len(value.shape) if len(value.shape) < 3 else len(value.shape) - 1
        index = places(count, step, base, value.shape[at], self.tl.arange)
        sizes = tuple(count if n == at else size for n, size in enumerate(value.shape))
        lying = tuple(count if n == at else 1 for n in range(len(value.shape)))
        self.keep(self.tl.gather(value, self.tl.broadcast_to(self.tl.reshape(index, lying), sizes), at))

    def extreme(self, number: int) -> None:
        """The largest of each row, by a place that the kernel does not know."""
        value = self.pick(number)
        last = len(value.shape) - 1
        self.keep(self.tl.gather(value, self.tl.argmax(value, last), last))

    def binned(self, number: int, bins: int) -> None:
        self.keep(self.tl.histogram(self.pick(number), bins))

    def paired(self, op: str, first: int, second: int, axis: int) -> None:
        one, two = self.pick(first), self.pick(second)
        more = (axis % len(one.shape),) if op == "cat" else ()
        self.keep(getattr(self.tl, op)(one, two, *more))

    def halved(self, number: int) -> None:
        value = self.pick(number)
        for each in self.tl.split(self.tl.reshape(value, (*value.shape[:-1], -1, 2))):
            self.keep(each)

    def retyped(self, number: int) -> None:
        value = self.pick(number)
        self.keep(self.tl.bitcast(value, RETYPED[value.dtype]))

    def turned(self, number: int, order: int, op: str, second: int) -> None:
        value = self.pick(number)
        moved = self.tl.permute(value, order_of(value.shape, order))
        self.keep(-moved if op == "neg" else moved + moved if op == "add" else self.tl.maximum(moved, second))

    def bits(self, op: str, number: int) -> None:
        self.keep(getattr(self.tl, op)(self.pick(number)))

    def shifted(self, op: str, number: int, amount: int) -> None:
        value = self.pick(number)
        self.keep(value << amount if op == "lshift" else value >> amount)

    def random(self, seed: int, count: int, step: int) -> None:
        self.keep(self.tl.randint(seed, self.tl.arange(count) * step))


class LayoutModel(Player):
    """The steps by numpy. `viewed` are values that share their bytes with others."""

    viewed: list[Value]

    def ordered(self, op: str, number: int, axis: int, k: int, descending: bool) -> None:
        value = self.pick(number)
        if op == "flip":
            at = axis % len(value.shape)
            self.keep(value.mapped(lambda array: np.flip(array, at)))
            return
        need(op == "sort" or k <= value.shape[-1])
        at = axis_of(value.shape, axis) if op == "sort" else len(value.shape) - 1
        found = np.sort(value.numbers, at, kind="stable")
        found = np.flip(found, at) if descending or op == "topk" else found
        error = np.broadcast_to(value.error.max(at, keepdims=True), found.shape)
        end = None if op == "sort" else k
        self.keep(Value(found[..., :end], np.array(error[..., :end]), value.dtype))

    def gathered(self, number: int, axis: int, count: int, step: int, base: int) -> None:
        value = self.pick(number)
        at = axis % len(value.shape) if len(value.shape) < 3 else len(value.shape) - 1
        index = places(count, step, base, value.shape[at], np.arange)
        self.keep(value.mapped(lambda array: np.take(array, index, at)))

    def extreme(self, number: int) -> None:
        value = self.pick(number)
        need(value.is_exact and value.dtype is not DType.BOOL)
        self.keep(value.mapped(lambda array: array.max(-1, keepdims=True)))

    def binned(self, number: int, bins: int) -> None:
        value = self.pick(number)
        need(not value.dtype.is_float and value.dtype is not DType.BOOL)
        found = [(value.numbers == each).sum() for each in range(bins)]
        self.keep(integers(np.array(found), DType.I32))

    def paired(self, op: str, first: int, second: int, axis: int) -> None:
        one, two = self.pick(first), self.pick(second)
        need(one.dtype is two.dtype and one.shape == two.shape)

        def put(a: Array, b: Array) -> Array:
            if op == "cat":
                return np.concatenate([a, b], axis % a.ndim)
            side = np.stack([a, b], -1)
            return side if op == "join" else side.reshape(*a.shape[:-1], -1)

        self.keep(Value(put(one.numbers, two.numbers), put(one.error, two.error), one.dtype))

    def halved(self, number: int) -> None:
        value = self.pick(number)
        need(value.shape[-1] % 2 == 0)
        for at in (0, 1):
            self.keep(value.mapped(lambda array, at=at: array[..., at::2]))

    def retyped(self, number: int) -> None:
        value = self.pick(number)
        need(value.dtype in RETYPED and value.is_exact)
        kind, wanted = numpy_dtype(value.dtype), RETYPED[value.dtype]
        if value.dtype.is_float:
            need((value.numbers != 0).all())  # 0 may have either sign
            stored = value.numbers.astype(np.float32).astype(kind)
        else:
            stored = value.numbers.astype(kind)
        found = integers(stored.view(numpy_dtype(wanted)).astype(np.int64), wanted)
        self.keep(found)
        self.viewed += [value, found]

    def turned(self, number: int, order: int, op: str, second: int) -> None:
        value = self.pick(number)
        need(value.dtype is not DType.BOOL and value.dtype not in UNSIGNED)
        moved = value.mapped(lambda array: array.transpose(order_of(array.shape, order)))
        self.values.append(moved)
        at = len(self.values) - 1
        if op == "neg":
            self.unary("neg", at)
        elif op == "add":
            self.binary("add", at, at)
        else:
            self.scalar("maximum", at, second, False)
        self.values.pop(at)

    def bits(self, op: str, number: int) -> None:
        value = self.pick(number)
        need(not value.dtype.is_float and value.dtype is not DType.BOOL)
        width = 8 * value.dtype.nbytes
        of = {
            "popcount": int.bit_count,
            "clz": lambda word: width - word.bit_length(),
            "ffs": lambda word: (word & -word).bit_length(),
            "brev": lambda word: int(f"{word:0{width}b}"[::-1], 2),
        }[op]
        found = np.reshape([of(int(each) % 2**width) for each in value.numbers.flat], value.shape)
        self.keep(integers(found, value.dtype))

    def shifted(self, op: str, number: int, amount: int) -> None:
        value = self.pick(number)
        need(not value.dtype.is_float and value.dtype is not DType.BOOL)
        shift = np.left_shift if op == "lshift" else np.right_shift
        self.keep(integers(shift(value.numbers, amount), value.dtype))

    def random(self, seed: int, count: int, step: int) -> None:
        self.keep(integers(np.array([philox(at * step, seed) for at in range(count)]), DType.U32))


def order_of(shape: tuple[int, ...], number: int) -> tuple[int, ...]:
    """Some order of the axes."""
    axes = list(range(len(shape)))
    turned = axes[number % len(axes) :] + axes[: number % len(axes)]
    return tuple(turned if number % 2 else reversed(turned))


def philox(offset: int, seed: int) -> int:
    """The first word of Philox4x32-10, by Python's integers."""
    words, keys = [offset % 2**32, 0, 0, 0], [seed % 2**32, seed >> 32]
    for _ in range(10):
        one, two = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [(two >> 32) ^ words[1] ^ keys[0], two % 2**32, (one >> 32) ^ words[3] ^ keys[1], one % 2**32]
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    return words[0]
