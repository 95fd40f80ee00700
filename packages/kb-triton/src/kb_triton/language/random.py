"""Random numbers by Philox, the same as Triton's.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), the generator Philox 4x32.
"""

from __future__ import annotations

from typing import Any, Final

from kb_triton.language.elementary import cos, log, maximum, sin, sqrt, umulhi
from kb_triton.language.selection import where
from kb_triton.language.shapes import full_handle
from kb_triton.language.tensors.arithmetic import as_tensor, binary, broadcast_shapes, compute
from kb_triton.language.tensors.casts import cast
from kb_triton.language.tensors.dtypes import float32, int32, int64, uint32, uint64
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import tensor
from kb_triton.language.tensors.values import NUMBERS, as_argument, value_of

N_ROUNDS_DEFAULT: Final = 10
_KEYS: Final = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}
_ROUNDS: Final = {32: (0xD2511F53, 0xCD9E8D57), 64: (0xD2E7470EE14C6C93, 0xCA5A826395121157)}
_SCALES: Final = {32: 4.6566127342e-10, 64: 1.0842020432385337e-19}


def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Four blocks of random unsigned integers from the counters *c0* to *c3*."""
    counters = [as_tensor(each) for each in (c0, c1, c2, c3)]
    bits = 64 if counters[0].dtype.primitive_bitwidth > 32 else 32
    kind = uint64 if bits == 64 else uint32
    key = cast(as_tensor(seed), uint64)
    if bits == 32:
        keys = [cast(binary("bit_and", key, 0xFFFFFFFF), kind), cast(binary("rshift", key, 32), kind)]
    else:
        keys = [key, tensor(0, (), kind)]
    counters = [cast(each, kind) for each in counters]
    if bits == 32 and not all(type(each.value) in NUMBERS for each in counters):
        return _of_chip(key, counters, int(n_rounds))
    return _philox(counters, keys, kind, bits, int(n_rounds))


def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Four blocks of random unsigned integers from counters *c0* to *c3* and the two halves of the key.

    Raises KernelError for counters of other types than uint32 and uint64.
    """
    first = as_tensor(c0)
    if first.dtype not in (uint32, uint64):
        refuse(f"tl.philox_impl of {first.dtype}", "counters of tl.uint32 or tl.uint64")
    counters = [cast(as_tensor(each), first.dtype) for each in (first, c1, c2, c3)]
    keys = [cast(as_tensor(each), first.dtype) for each in (k0, k1)]
    return _philox(counters, keys, first.dtype, first.dtype.primitive_bitwidth, int(n_rounds))


def _of_chip(key: tensor, counters: list[tensor], n_rounds: int) -> Any:
    """Computes `philox` by the chip's function for 32 bits."""
    shape = counters[0].shape
    for each in counters[1:]:
        shape = broadcast_shapes(shape, each.shape, "tl.philox")
    seed = key.value if type(key.value) in NUMBERS else full_handle(key)
    one, two, three, four = (as_argument(each.value) for each in counters)
    words = machine().philox(seed, one, two, three, four, n_rounds)
    return tuple(tensor(value_of(each, uint32), shape, uint32) for each in words)


def _philox(counters: list[tensor], keys: list[tensor], kind: Any, bits: int, n_rounds: int) -> Any:
    first, second = (tensor(each, (), kind) for each in _ROUNDS[bits])
    a, b, c, d = counters
    for _ in range(n_rounds):
        new_a = umulhi(second, c) ^ b ^ keys[0]
        new_c = umulhi(first, a) ^ d ^ keys[1]
        b, d = compute("mul", second, c, kind), compute("mul", first, a, kind)
        a, c = new_a, new_c
        keys = [compute("add", key, tensor(step, (), kind), kind) for key, step in zip(keys, _KEYS[bits], strict=True)]
    return a, b, c, d


def randint4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Four blocks of random integers, one for each of *offset*."""
    given = as_tensor(offset)
    zero = tensor(0, (), uint32)
    if given.dtype.primitive_bitwidth > 32:
        high = cast(binary("rshift", cast(given, uint64), 32), uint32)
        return philox(seed, cast(given, uint32), high, zero, zero, n_rounds)
    return philox(seed, given, zero, zero, zero, n_rounds)


def randint(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> tensor:
    """A block of random integers, one for each of *offset*."""
    found: tensor = randint4x(seed, offset, n_rounds)[0]
    return found


def uint_to_uniform_float(x: Any) -> tensor:
    """Random integers as floats from 0 to below 1."""
    given = as_tensor(x)
    is_wide = given.dtype.primitive_bitwidth == 64
    signed = cast(given, int64 if is_wide else int32)
    positive = where(signed < 0, -signed - 1, signed)
    found: tensor = cast(positive, float32) * _SCALES[64 if is_wide else 32]
    return found


def rand(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> tensor:
    """Random floats from 0 to below 1, one for each of *offset*."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def rand4x(seed: Any, offsets: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Four blocks of random floats from 0 to below 1."""
    return tuple(uint_to_uniform_float(each) for each in randint4x(seed, offsets, n_rounds))


def pair_uniform_to_normal(u1: Any, u2: Any) -> tuple[tensor, tensor]:
    """Two blocks of normal numbers from two blocks of uniform numbers, by the Box-Muller transform."""
    low = maximum(1.0e-7, u1)
    angle = 6.283185307179586 * as_tensor(u2)
    radius = sqrt(-2.0 * log(low))
    return radius * cos(angle), radius * sin(angle)


def randn(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> tensor:
    """Random normal numbers, one for each of *offset*."""
    first, second, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(first), uint_to_uniform_float(second))[0]


def randn4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """Four blocks of random normal numbers."""
    uniform = rand4x(seed, offset, n_rounds)
    return (*pair_uniform_to_normal(*uniform[:2]), *pair_uniform_to_normal(*uniform[2:]))


__all__ = [
    "N_ROUNDS_DEFAULT", "pair_uniform_to_normal", "philox", "philox_impl", "rand", "rand4x", "randint", "randint4x",
    "randn", "randn4x", "uint_to_uniform_float",
]  # fmt: skip
