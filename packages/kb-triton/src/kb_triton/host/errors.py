"""The error of a kernel whose values do not fit the TCM of a PE, under Triton's name."""

from __future__ import annotations

from kb_engine.program import TcmFullError
from kb_messages import KernelError


class OutOfResources(KernelError):
    """A kernel that needs more TCM than a PE has. Autotuning skips such a configuration.

    `required` is the bytes that were asked for, `limit` those that were free, and `name` the memory.
    """

    name = "TCM"
    required = 0
    limit = 0

    @classmethod
    def of(cls, error: TcmFullError) -> OutOfResources:
        """The error under Triton's name."""
        found = cls(error.where, error.got, error.needs, error.fix)
        found.required, found.limit = error.required, error.limit
        return found
