"""Limits the BLAS threads of small matrix products."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Final

from threadpoolctl import ThreadpoolController

_SMALL_PRODUCT: Final = 1 << 24
"""Multiplications. Source: measured with OpenBLAS 0.3.31 on two cores. A product of 128^3 takes 44 us on one thread. On
two threads it takes 31 us while the other core is idle, and up to 400 us while it is busy. A 2048^3 GEMM tile by tile
took 0.9 s on one thread and 1.0 to 3.9 s on two."""


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded() -> AbstractContextManager[Any]:
    """Returns a context in which BLAS works on the calling thread alone."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


def threads_for(rows: int, cols: int, k: int) -> AbstractContextManager[Any]:
    """Returns `single_threaded()` for a product that is too small to gain from threads; else a context without
    effect.
    """
    return single_threaded() if rows * cols * k < _SMALL_PRODUCT else nullcontext()
