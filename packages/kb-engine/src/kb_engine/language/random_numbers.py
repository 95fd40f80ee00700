"""Random numbers by Philox4x32, from a seed and an offset: the same numbers as Triton's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kb_engine.language.call_rules import Argument
from kb_engine.language.combining import CombiningFunctions
from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_messages import DType, KernelError

_WORD: Final = 2**32 - 1
_SCALE: Final = 4.6566127342e-10
"""Scales integers of 31 bits to numbers below 1. Source: Triton's documentation of `uint_to_uniform_float`."""
_LEAST: Final = 1e-7
"""The least uniform number whose logarithm is taken. Source: Triton, `pair_uniform_to_normal`."""
_TURN: Final = 6.283185307179586

Four = tuple[LoadedTensor, LoadedTensor, LoadedTensor, LoadedTensor]


class RandomNumbers(CombiningFunctions):
    """Random numbers that depend on *seed*, an integer of 64 bits, and on each integer of *offset*, and on nothing
    else.

    An *offset* of 64 bits counts with all its bits. The four words of a counter are computed one by one. Raises
    KernelError for a seed or an offset that is no integer.
    """

    def philox(
        self, seed: int | Handle, c0: Argument, c1: Argument, c2: Argument, c3: Argument, n_rounds: int = 10
    ) -> Four:
        """Four words, u32, of *n_rounds* rounds of Philox of the counter *c0* to *c3*, words of 32 bits, and of *seed*.

        Source: Salmon and others, "Parallel random numbers: as easy as 1, 2, 3" (2011), Philox4x32.
        """
        counter = [self._integers(each, "philox") for each in (c0, c1, c2, c3)]
        words = [self._word(seed, counter, n_rounds, number) for number in range(4)]
        return words[0], words[1], words[2], words[3]

    def randint4x(self, seed: int | Handle, offset: Argument, n_rounds: int = 10) -> Four:
        """Four random integers, u32, for each element of *offset*."""
        low, high = self._counter(offset, "randint4x")
        return self.philox(seed, low, high, 0, 0, n_rounds)

    def randint(self, seed: int | Handle, offset: Argument, n_rounds: int = 10) -> LoadedTensor:
        """A random integer, u32, for each element of *offset*: the first of `randint4x`."""
        low, high = self._counter(offset, "randint")
        return self._word(seed, [low, high, 0, 0], n_rounds, 0)

    def rand(self, seed: int | Handle, offset: Argument, n_rounds: int = 10) -> LoadedTensor:
        """A random f32, uniform from 0 to 1, 1 excluded, for each element of *offset*."""
        return self.uint_to_uniform_float(self.randint(seed, offset, n_rounds))

    def rand4x(self, seed: int | Handle, offset: Argument, n_rounds: int = 10) -> Four:
        """Four random f32, uniform from 0 to 1, 1 excluded, for each element of *offset*."""
        one, two, three, four = map(self.uint_to_uniform_float, self.randint4x(seed, offset, n_rounds))
        return one, two, three, four

    def randn(self, seed: int | Handle, offset: Argument, n_rounds: int = 10) -> LoadedTensor:
        """A random f32 of the standard normal distribution for each element of *offset*."""
        low, high = self._counter(offset, "randn")
        words = [self._word(seed, [low, high, 0, 0], n_rounds, number) for number in (0, 1)]
        return self.pair_uniform_to_normal(*map(self.uint_to_uniform_float, words))[0]

    def randn4x(self, seed: int | Handle, offset: Argument, n_rounds: int = 10) -> Four:
        """Four random f32 of the standard normal distribution for each element of *offset*."""
        one, two, three, four = self.rand4x(seed, offset, n_rounds)
        return *self.pair_uniform_to_normal(one, two), *self.pair_uniform_to_normal(three, four)

    def uint_to_uniform_float(self, x: Handle) -> LoadedTensor:
        """Random integers of 32 bits as f32 from 0 to 1, 1 excluded. Raises KernelError for another dtype."""
        got = getattr(x, "dtype", type(x).__name__)
        if got not in (DType.U32, DType.I32):
            raise KernelError(self._port.line(), f"tl.uint_to_uniform_float of {got}", "u32 or i32")
        signed = self.bitcast(x, DType.I32)
        return self.where(signed < 0, ~signed, signed).to(DType.F32) * _SCALE

    def pair_uniform_to_normal(self, u1: Handle, u2: Handle) -> tuple[LoadedTensor, LoadedTensor]:
        """Two values of the standard normal distribution from two uniform ones of 0 to 1.

        Source: Box and Muller, "A note on the generation of random normal deviates" (1958).
        """
        size, angle = self.sqrt(self.log(self.maximum(u1, _LEAST)) * -2.0), u2 * _TURN
        return size * self.cos(angle), size * self.sin(angle)

    def _word(self, seed: int | Handle, counter: Sequence[Argument], n_rounds: int, number: int) -> LoadedTensor:
        given: object = n_rounds
        if not isinstance(given, int) or not 1 <= given <= 100:
            raise KernelError(self._port.line(), f"n_rounds={n_rounds!r}", "a number from 1 to 100")
        whole = self._integers(seed, "philox")
        key: tuple[Argument, Argument]
        if isinstance(whole, int):
            key = whole & _WORD, whole >> 32 & _WORD
        else:
            key = whole, whole >> 32 if self._bits(whole, "philox") > 32 else 0
        words = [each & _WORD if isinstance(each, int) else each for each in counter]
        return self._call("philox", [*words, *key, n_rounds, number], dtype=DType.U32)

    def _counter(self, offset: Argument, call: str) -> tuple[Argument, Argument]:
        """The two lower words of the counter."""
        given = self._integers(offset, call)
        if isinstance(given, int):
            given = self.full((1,), given, DType.I64 if not -(2**31) <= given < 2**32 else DType.I32)
        return given, given >> 32 if self._bits(given, call) > 32 else 0

    def _integers(self, value: Any, call: str) -> int | Handle | HostValue:
        """*value*, which has to be integers of 64 bits at most. Raises KernelError for anything else."""
        if isinstance(value, int) and -(2**63) <= value < 2**64:
            return value
        if isinstance(value, HostValue) or (isinstance(value, Handle) and not value.dtype.is_float):
            return value
        got = f"values of {value.dtype}" if isinstance(value, Handle) else repr(value)
        raise KernelError(self._port.line(), f"tl.{call} of {got}", "integers of 64 bits at most")
