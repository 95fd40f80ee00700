"""One MATH record: executes it, and reads its result."""

import re
import warnings

import numpy as np
import pytest
from dataexec_gemm_log import REG, REGIONS, TCM, LogBuilder
from dataexec_math_values import STEP, attributes, inputs_of, whole

from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore
from kb_messages import DType, OpKind, Role

REDUCTIONS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
REDUCTIONS |= {"max_number": np.max, "min_number": np.min}
SCANS = {"cumsum": np.cumsum, "cumprod": np.cumprod}
SCANS |= {"cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}
SCANS |= {"cummax_number": np.maximum.accumulate, "cummin_number": np.minimum.accumulate}
BITS = {"reduce_and": np.bitwise_and, "reduce_or": np.bitwise_or, "reduce_xor": np.bitwise_xor}
WHERE = "op 0 (an_op, pe0, kernel.py:3)"


def execute(operands, params, arrays=()):
    builder = LogBuilder()
    builder.add((0, 0, 0), OpKind.MATH, "an_op", operands, params)
    store = MemoryStore(REGIONS)
    for at, array in enumerate(arrays):
        store.write_tensor(TCM, at * STEP, array)
    return Executor(builder.log(), store, "tile").run()


def apply(op, *arrays, out=DType.F32, shape=None, axis=None, scalars=(), scalar_at=(), reverse=False, group=None):
    """The result of one record on *arrays*."""
    shape = shape or np.broadcast_shapes(*(array.shape for array in arrays))
    operands = [*inputs_of(arrays), whole(Role.OUT, REG, 0, shape, out)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = execute(operands, attributes(op, axis, scalars, scalar_at, reverse, group), arrays)
    nbytes = shape[1] * out.nbytes
    return store.read(REG, 0, shape[0], nbytes, nbytes, out)


def expect(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def column(*numbers, dtype=np.int32):
    return np.array([numbers], dtype)
