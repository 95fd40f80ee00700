"""How many threads a matrix product takes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Final

from threadpoolctl import ThreadpoolController

# Measured with OpenBLAS 0.3.31 on two cores: 128^3 takes 44 us on one thread and 31 us on two while the other core is
# idle, but up to 400 us when it is not; a 2048^3 GEMM tile by tile took 0.9 s on one thread and 1.0 to 3.9 s on two.
_SMALL_PRODUCT: Final = 1 << 24


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded() -> AbstractContextManager[Any]:
    """While it is open, BLAS works on the calling thread alone."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


def threads_for(rows: int, cols: int, k: int) -> AbstractContextManager[Any]:
    """`single_threaded` for a product too small to gain from threads; nothing for a larger one."""
    return single_threaded() if rows * cols * k < _SMALL_PRODUCT else nullcontext()
