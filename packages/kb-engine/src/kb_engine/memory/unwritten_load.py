"""The error of a kernel that loads bytes that nobody wrote."""

from __future__ import annotations

from typing import Final

from kb_dataexec import UnwrittenBytesError
from kb_messages import KernelError

_WRITE_BEFORE: Final = "store to these elements before, or give the tensor data when it is made"
_FREED: Final = "the tensor that was there has been freed (host.free): launch before that, or on another tensor"


class UnwrittenLoadError(KernelError):
    """A kernel loads bytes that nobody wrote. `byte` is (owner, offset) of the first of them, and `was_released` says
    whether that one was written and then released."""

    def __init__(
        self, where: str, got: str, needs: str, fix: str, byte: tuple[int, int], was_released: bool = False
    ) -> None:
        super().__init__(where, got, needs, fix)
        self.args = (where, got, needs, fix, byte, was_released)
        self.byte, self.was_released = byte, was_released

    @classmethod
    def of(cls, error: UnwrittenBytesError) -> UnwrittenLoadError:
        """The error with the sentence of *error* and a remedy for the author of a kernel."""
        return cls(error.where, error.got, error.needs, _WRITE_BEFORE, error.first, error.was_released)

    def at(self, line: str) -> UnwrittenLoadError:
        """The error of a load at the kernel line *line*."""
        return UnwrittenLoadError(f"{line}: {self.where}", self.got, self.needs, self.fix, self.byte, self.was_released)

    def name(self, element: str | None) -> None:
        """Say that `byte` is one of *element*; None for a byte of no tensor, which may have been one of a freed one."""
        if element is not None:
            self.got = f"{self.got}, first that of {element}"
        elif self.was_released:
            self.fix = _FREED
        self.args = (self.where, self.got, self.needs, self.fix, self.byte, self.was_released)
