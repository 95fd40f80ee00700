"""The names of `triton.language`."""

from kb_triton.language.casts import cast
from kb_triton.language.constexprs import constexpr
from kb_triton.language.creation import arange, full, full_like, num_programs, program_id, zeros, zeros_like
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
from kb_triton.language.memory import load, store
from kb_triton.language.pointers import Pointer, pointer_of
from kb_triton.language.shapes import broadcast_to, expand_dims
from kb_triton.language.tensor import tensor

__all__ = [
    "ChipStorage",
    "Machine",
    "Pointer",
    "arange",
    "bfloat16",
    "block_type",
    "broadcast_to",
    "cast",
    "constexpr",
    "dtype",
    "expand_dims",
    "float8e4b8",
    "float8e4b15",
    "float8e4nv",
    "float8e5",
    "float8e5b16",
    "float16",
    "float32",
    "float64",
    "full",
    "full_like",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "load",
    "num_programs",
    "pi32_t",
    "pointer_of",
    "pointer_type",
    "program_id",
    "store",
    "tensor",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
    "zeros",
    "zeros_like",
]
