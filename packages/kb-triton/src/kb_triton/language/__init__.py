"""The names of `triton.language`."""

import sys
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, Final

from kb_triton.language import libdevice, math, random
from kb_triton.language.atomics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
)
from kb_triton.language.block_pointers import (
    _experimental_descriptor_load,
    _experimental_descriptor_store,
    advance,
    load_tensor_descriptor,
    make_block_ptr,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
)
from kb_triton.language.casts import cast
from kb_triton.language.combining import associative_scan, reduce
from kb_triton.language.constexprs import constexpr
from kb_triton.language.control import (
    assume,
    debug_barrier,
    device_assert,
    device_print,
    inline_asm_elementwise,
    max_constancy,
    max_contiguous,
    multiple_of,
    range,  # noqa: A004 - Triton's name
    static_assert,
    static_print,
    static_range,
)
from kb_triton.language.creation import arange, full, full_like, num_programs, program_id, zeros, zeros_like
from kb_triton.language.dots import dot, dot_scaled
from kb_triton.language.dtypes import (
    bfloat16,
    block_type,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    get_int_dtype,
    int1,
    int8,
    int16,
    int32,
    int64,
    pi32_t,
    pointer_type,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from kb_triton.language.machine import ChipStorage, Machine
from kb_triton.language.math import (
    abs,  # noqa: A004 - Triton's name
    cdiv,
    ceil,
    clamp,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    logical_and,
    logical_or,
    maximum,
    minimum,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from kb_triton.language.memory import load, store
from kb_triton.language.orders import flip, gather, histogram, sort, topk
from kb_triton.language.pointers import Pointer, pointer_of
from kb_triton.language.random import (
    pair_uniform_to_normal,
    philox,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
from kb_triton.language.reductions import (
    argmax,
    argmin,
    cumprod,
    cumsum,
    max,  # noqa: A004 - Triton's name
    min,  # noqa: A004 - Triton's name
    reduce_or,
    sum,  # noqa: A004 - Triton's name
    xor_sum,
)
from kb_triton.language.selection import where
from kb_triton.language.shapes import (
    broadcast,
    broadcast_to,
    cat,
    expand_dims,
    interleave,
    join,
    permute,
    ravel,
    reshape,
    split,
    squeeze,
    trans,
    unsqueeze,
    view,
)
from kb_triton.language.standard import _log2, softmax, swizzle2d
from kb_triton.language.tensor import tensor

TRITON_MAX_TENSOR_NUMEL = 1048576
CONSTEXPR_0: Final = 0


extra: Final = SimpleNamespace(
    libdevice=libdevice, cuda=SimpleNamespace(libdevice=libdevice), hip=SimpleNamespace(libdevice=libdevice)
)
"""The namespace `tl.extra`."""


def __getattr__(name: str) -> Any:
    if name in ("core", "standard", "semantic"):
        return sys.modules[__name__]
    near = get_close_matches(name, __all__, n=3)
    hint = f": did you mean {' or '.join(f'tl.{each}' for each in near)}?" if near else ""
    raise AttributeError(f"tl has no {name!r} here{hint}", name=name)


__all__ = [
    "CONSTEXPR_0",
    "TRITON_MAX_TENSOR_NUMEL",
    "ChipStorage",
    "Machine",
    "Pointer",
    "_experimental_descriptor_load",
    "_experimental_descriptor_store",
    "_log2",
    "abs",
    "advance",
    "arange",
    "argmax",
    "argmin",
    "associative_scan",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "bfloat16",
    "block_type",
    "broadcast",
    "broadcast_to",
    "cast",
    "cat",
    "cdiv",
    "ceil",
    "clamp",
    "constexpr",
    "cos",
    "cumprod",
    "cumsum",
    "debug_barrier",
    "device_assert",
    "device_print",
    "div_rn",
    "dot",
    "dot_scaled",
    "dtype",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "extra",
    "fdiv",
    "flip",
    "float8e4b8",
    "float8e4b15",
    "float8e4nv",
    "float8e5",
    "float8e5b16",
    "float16",
    "float32",
    "float64",
    "floor",
    "fma",
    "full",
    "full_like",
    "gather",
    "get_int_dtype",
    "histogram",
    "inline_asm_elementwise",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "interleave",
    "join",
    "libdevice",
    "load",
    "load_tensor_descriptor",
    "log",
    "log2",
    "logical_and",
    "logical_or",
    "make_block_ptr",
    "make_tensor_descriptor",
    "math",
    "max",
    "max_constancy",
    "max_contiguous",
    "maximum",
    "min",
    "minimum",
    "multiple_of",
    "num_programs",
    "pair_uniform_to_normal",
    "permute",
    "philox",
    "pi32_t",
    "pointer_of",
    "pointer_type",
    "program_id",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "random",
    "range",
    "ravel",
    "reduce",
    "reduce_or",
    "reshape",
    "rsqrt",
    "sigmoid",
    "sin",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "sqrt_rn",
    "squeeze",
    "static_assert",
    "static_print",
    "static_range",
    "store",
    "store_tensor_descriptor",
    "sum",
    "swizzle2d",
    "tensor",
    "tensor_descriptor",
    "topk",
    "trans",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uint_to_uniform_float",
    "umulhi",
    "unsqueeze",
    "view",
    "void",
    "where",
    "xor_sum",
    "zeros",
    "zeros_like",
]
