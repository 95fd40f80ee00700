"""Operands and attributes of one MATH record."""

import msgspec
import numpy as np
from dataexec_gemm_log import TCM, move

from kb_dataexec.arrays.dtypes import cast, numpy_dtype
from kb_messages import DType, MathAttributes, Role

STEP = 4096
DTYPE_OF = {numpy_dtype(dtype): dtype for dtype in DType}


def attributes(op, axis=None, scalars=(), scalar_at=(), reverse=False, group=None):
    made = MathAttributes(op=op, axis=axis, scalars=scalars, scalar_at=scalar_at, reverse=reverse, group=group)
    return msgspec.json.encode(made).decode()


def whole(role, owner, offset, shape, dtype, release=0):
    return move(role, owner, offset, *shape, shape[1] * dtype.nbytes, dtype, release)


def inputs_of(arrays, release=0):
    dtypes = [DTYPE_OF[array.dtype] for array in arrays]
    return [
        whole(Role.IN, TCM, at * STEP, array.shape, dtype, release)
        for at, (array, dtype) in enumerate(zip(arrays, dtypes, strict=True))
    ]


def values(dtype, shape=(5, 7), low=-4.0, high=4.0, seed=0):
    return cast(np.random.default_rng(seed).uniform(low, high, shape), dtype)
