"""The error of a kernel that loads bytes that nobody wrote."""

from __future__ import annotations

from typing import Final

from kb_dataexec import UnwrittenBytesError
from kb_messages import KernelError

_WRITE_BEFORE: Final = "store to these elements before, or give the tensor data when it is made"


class UnwrittenLoadError(KernelError):
    """A kernel loads bytes that nobody wrote. `byte` is (owner, offset) of the first of them."""

    def __init__(self, where: str, got: str, needs: str, fix: str, byte: tuple[int, int]) -> None:
        super().__init__(where, got, needs, fix)
        self.args = (where, got, needs, fix, byte)
        self.byte = byte

    @classmethod
    def of(cls, error: UnwrittenBytesError) -> UnwrittenLoadError:
        """What *error* says, and what a kernel does about it."""
        return cls(error.where, error.got, error.needs, _WRITE_BEFORE, error.first)

    def at(self, line: str) -> UnwrittenLoadError:
        """The error of a load at the kernel line *line*."""
        return UnwrittenLoadError(f"{line}: {self.where}", self.got, self.needs, self.fix, self.byte)

    def name(self, element: str) -> None:
        """Say that `byte` is one of *element*."""
        self.got = f"{self.got}, first that of {element}"
        self.args = (self.where, self.got, self.needs, self.fix, self.byte)
