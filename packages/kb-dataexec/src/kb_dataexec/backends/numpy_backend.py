"""The default backend: numpy, with BLAS for products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.arrays.functions import FUNCTIONS
from kb_messages import DType


class NumpyBackend:
    """Computes with numpy, on the CPU."""

    name = "numpy"
    shares_cores = True

    def matmul(self, a: Array, b: Array) -> Array:
        """Returns a @ b. Floats are multiplied by sgemm, in f32; integers exactly, modulo 2^32."""
        if a.dtype.kind not in "iub":
            out: Array = np.matmul(cast(a, DType.F32), cast(b, DType.F32))
        elif _exact_in_f64(a, b):
            out = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(np.int32)
        else:
            out = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32)
        return out

    def apply(self, op: str, arguments: Sequence[Array], axis: int | None) -> Array:
        """Returns function *op* of `MATH_FUNCTIONS`, applied to *arguments*."""
        function = FUNCTIONS[op]
        return function.apply(*arguments, axis=axis) if function.has_axis else function.apply(*arguments)


def _exact_in_f64(a: Array, b: Array) -> bool:
    """Whether every partial sum of a @ b stays below 2^53. dgemm then makes no rounding error."""
    return a.dtype.itemsize + b.dtype.itemsize <= 4 and a.shape[-1] < 1 << 20
