"""What observers find in kernels: leaks of TCM and indices that wrapped, as records."""

from __future__ import annotations

from msgspec import Struct


class Leak(Struct, frozen=True, kw_only=True):
    """A kernel line that allocated TCM again and again, and whose values are still referred to at the end.

    The program that held most at its end held `count` allocations of `nbytes` bytes in all. `programs` is the number of
    programs that held some, and `pes` are the PEs on which those ran, in the order in which they ended.
    """

    line: str
    count: int
    nbytes: int
    programs: int
    pes: tuple[str, ...]

    def __str__(self) -> str:
        where = self.pes[0] if len(self.pes) == 1 else f"{self.pes[0]} to {self.pes[-1]}"
        up_to, ends = ("up to ", f"each of {self.programs} programs ends") if self.programs > 1 else ("", "it ends")
        return (
            f"leak of TCM: {self.line} allocates in a loop, and its program holds {up_to}{self.count} of these "
            f"({self.nbytes} bytes) until {ends}, on {where}; keep no reference to a value outside the kernel or in a "
            "cycle"
        )


class WrappedIndex(Struct, frozen=True, kw_only=True):
    """A kernel line that indexed, `count` times, by integers that follow from some that wrapped at `wrapped_at`.

    `pes` are the PEs on which programs did, in the order of their first time.
    """

    line: str
    wrapped_at: str
    count: int
    pes: tuple[str, ...]

    def __str__(self) -> str:
        where = self.pes[0] if len(self.pes) == 1 else f"{self.pes[0]} to {self.pes[-1]}"
        times = f", {self.count} times" if self.count > 1 else ""
        return (
            f"wrapped index: {self.line} indexes by integers that wrapped at {self.wrapped_at}, on {where}{times}; "
            'compute them in i64: x.to("i64")'
        )
