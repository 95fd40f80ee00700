"""What a backend has to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kb_dataexec.arrays.dtypes import Array
from kb_messages import KbError


class BackendError(KbError):
    """A backend that does not exist, is not installed, or has no such device."""


class Backend(Protocol):
    """Computes on numpy arrays and returns new ones, which it does not keep."""

    @property
    def name(self) -> str:
        """What `load_backend` calls it."""

    @property
    def shares_cores(self) -> bool:
        """Whether several threads may compute at a time, each on a core of its own."""

    def matmul(self, a: Array, b: Array) -> Array:
        """a @ b of any supported types: f32 for floats, i32 (exact modulo 2^32) for integers.

        Matrices, or equally long stacks of them (the last two axes are a matrix). Sums of floats are in f32 at least:
        products in tf32, bf16 or f16 are wrong.
        """

    def apply(self, op: str, arguments: Sequence[Array], axis: int | None) -> Array:
        """Function *op* of `kb_messages.functions` of *arguments* (matrices, or stacks) that broadcast, all f32 or i64.

        What `where` asks, and what `copy` copies, come in their own types. A reduction is over *axis* and keeps it.
        The result is of the arguments' type, or bool.
        """
