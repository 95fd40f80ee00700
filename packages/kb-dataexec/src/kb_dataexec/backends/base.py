"""Backend: the protocol of a backend, which computes products and functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kb_dataexec.arrays.dtypes import Array
from kb_messages import KbError


class BackendError(KbError):
    """A backend that does not exist, is not installed, or has no such device."""


class Backend(Protocol):
    """Computes on numpy arrays. The results are new arrays that the backend does not keep."""

    @property
    def name(self) -> str:
        """The name that `load_backend` takes."""

    @property
    def shares_cores(self) -> bool:
        """Whether several threads may compute at the same time, each on a core of its own."""

    def matmul(self, a: Array, b: Array) -> Array:
        """Returns a @ b of any supported types. The result is f32 for floats and i32, exact modulo 2^32, for integers.

        *a* and *b* are matrices, or stacks of equal length whose last two axes are a matrix. Sums of floats must be at
        least as precise as f32; products in tf32, bf16 or f16 are wrong.
        """

    def apply(self, op: str, arguments: Sequence[Array], axis: int | None) -> Array:
        """Returns function *op* of `MATH_FUNCTIONS`, applied to *arguments*: matrices or stacks that broadcast.

        All arguments are f32, all are i64, or all are u64. Only the condition of `where` and the argument of `copy`
        keep their own types. A reduction is over *axis*, which stays with length 1; a scan is along *axis*. A function
        that generates gets the numbers of rows and of columns behind its scalars. The result has the arguments' type,
        or is bool, or an index.
        """
