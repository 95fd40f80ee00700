"""PageTable: the physical addresses of a PE's virtual addresses.

A lookup here takes no time. The time of a translation is that of the MMU.

Design: docs/design/memories.md
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

from msgspec.structs import replace

from kb_messages import VIRTUAL_BITS, AddressError, Matrix, MmuMap, MmuMessage, is_virtual

_SHOWN = 8
"""Ranges that an error spells out."""


class MappedRange(NamedTuple):
    """`nbytes` bytes from `virtual` on, which lie at `physical` in memory."""

    virtual: int
    physical: int
    nbytes: int

    @property
    def end(self) -> int:
        """The virtual address after the last byte."""
        return self.virtual + self.nbytes

    @property
    def shift(self) -> int:
        """The physical address minus the virtual one."""
        return self.physical - self.virtual

    def __str__(self) -> str:
        return f"{self.virtual:#x} to {self.end:#x} -> {self.physical:#x}"


class PageTable:
    """Maps ranges of whole pages of *page_nbytes* bytes. No virtual page and no physical page is mapped twice."""

    def __init__(self, label: str, page_nbytes: int) -> None:
        self._label = label
        self._page_nbytes = page_nbytes
        self._mappings: list[MappedRange] = []

    def copy(self) -> PageTable:
        """A table of the same mappings, on which a caller can try messages."""
        other = PageTable(self._label, self._page_nbytes)
        other._mappings = list(self._mappings)
        return other

    def obey(self, message: MmuMessage) -> None:
        """Maps or unmaps pages by *message*. An AddressError of `check_map` or `check_unmap` changes nothing."""
        if isinstance(message, MmuMap):
            self.map(message.virtual, message.physical, message.nbytes)
        else:
            self.unmap(message.virtual, message.nbytes)

    def check_map(self, virtual: int, physical: int, nbytes: int) -> None:
        """Raises AddressError unless the range is whole pages, and none of its virtual and physical bytes is mapped."""
        self._check_pages(virtual=virtual, physical=physical, nbytes=nbytes)
        self._check_range(virtual, nbytes)
        for other in self._mappings:
            for what, start, taken in (("virtual", virtual, other.virtual), ("physical", physical, other.physical)):
                if start < taken + other.nbytes and taken < start + nbytes:
                    got = f"{what} bytes {start:#x} to {start + nbytes:#x}, of which some are mapped already ({other})"
                    raise AddressError(f"{self._label}: map", got, "each byte mapped once", "unmap it first")

    def map(self, virtual: int, physical: int, nbytes: int) -> None:
        """Maps the *nbytes* bytes at *virtual* to the bytes at *physical*. Raises the AddressError of `check_map`."""
        self.check_map(virtual, physical, nbytes)
        insort(self._mappings, MappedRange(virtual, physical, nbytes))

    def check_unmap(self, virtual: int, nbytes: int) -> None:
        """Raises AddressError unless the range is whole pages, all of them mapped."""
        self._check_pages(virtual=virtual, nbytes=nbytes)
        self._check_range(virtual, nbytes)
        at = virtual
        while at < virtual + nbytes:
            found = self._find(at)
            if found is None:
                got = f"{at:#x}, which is not mapped"
                raise AddressError(f"{self._label}: unmap", got, f"a mapped range: {self.describe()}")
            at = found.end

    def unmap(self, virtual: int, nbytes: int) -> None:
        """Unmaps a range of pages, which several calls may have mapped. Raises the AddressError of `check_unmap`."""
        self.check_unmap(virtual, nbytes)
        end = virtual + nbytes
        kept: list[MappedRange] = []
        for each in self._mappings:
            if each.virtual < min(virtual, each.end):
                kept.append(MappedRange(each.virtual, each.physical, min(virtual, each.end) - each.virtual))
            if max(end, each.virtual) < each.end:
                start = max(end, each.virtual)
                kept.append(MappedRange(start, start + each.shift, each.end - start))
        self._mappings = kept

    def translate(self, matrix: Matrix) -> Matrix:
        """*matrix*, whose address is virtual, at its physical address; its `virtual` keeps the virtual one.

        Raises AddressError when one of its bytes is not mapped, and when its pages do not lie in a row in memory.
        """
        if matrix.stride - matrix.row_nbytes < self._page_nbytes:  # no whole page lies between two rows
            shifts = self._shifts(matrix.address, matrix.span_nbytes)
        else:
            rows = range(matrix.address, matrix.address + matrix.rows * matrix.stride, matrix.stride)
            shifts = {shift for start in rows for shift in self._shifts(start, matrix.row_nbytes)}
        if len(shifts) > 1:
            raise AddressError(
                self._label,
                f"virtual address {matrix.address:#x}, whose {matrix.rows} rows are in pages apart from each other",
                "pages that follow each other in physical memory as they do in virtual memory",
                f"map them so, or access them one by one; mapped are {self.describe()}",
            )
        return replace(matrix, address=matrix.address + shifts.pop(), virtual=matrix.address)

    def describe(self) -> str:
        """The mappings as text: the first few, and how many more there are."""
        shown = [str(each) for each in self._mappings[:_SHOWN]]
        more = len(self._mappings) - _SHOWN
        return ", ".join([*shown, f"{more} more"] if more > 0 else shown) or "nothing"

    def _shifts(self, start: int, nbytes: int) -> set[int]:
        """The shifts of all mappings of a range. Raises AddressError for a byte that is not mapped."""
        at, shifts = start, set()
        while at < start + nbytes:
            found = self._find(at)
            if found is None:
                raise AddressError(
                    self._label,
                    f"virtual address {at:#x}, which is not mapped",
                    f"an address in {self.describe()}" if self._mappings else "a mapped address, and none is",
                    "map it for this PE with host.map",
                )
            shifts.add(found.shift)
            at = found.end
        return shifts

    def _find(self, virtual: int) -> MappedRange | None:
        position = bisect_right(self._mappings, virtual, key=lambda each: each.virtual) - 1
        found = self._mappings[position] if position >= 0 else None
        return found if found is not None and virtual < found.end else None

    def _check_pages(self, **values: int) -> None:
        for name, value in values.items():
            if value % self._page_nbytes:
                raise AddressError(
                    self._label, f"{name} {value:#x}", f"a multiple of the page's {self._page_nbytes:#x} bytes"
                )

    def _check_range(self, virtual: int, nbytes: int) -> None:
        if nbytes <= 0 or not (is_virtual(virtual) and is_virtual(virtual + nbytes - 1)):
            raise AddressError(
                self._label,
                f"virtual bytes {virtual:#x} to {virtual + nbytes:#x}",
                f"at least one, from 0 up to 2^{VIRTUAL_BITS}",
            )
