"""What the host tells the chip: which virtual pages of a PE are which physical ones."""

from __future__ import annotations

from msgspec import Struct


class MmuMap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mmu_map"):
    """From now on `nbytes` bytes from `virtual` on are those from `physical` on, for each of the PEs `pes` (their ids).

    All three numbers are multiples of the page size. No byte has two virtual addresses for one PE, nor two physical.
    """

    virtual: int
    physical: int
    nbytes: int
    pes: tuple[str, ...]


class MmuUnmap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mmu_unmap"):
    """From now on the `nbytes` bytes from `virtual` on, all of them mapped until now, are nothing for the PEs `pes`."""

    virtual: int
    nbytes: int
    pes: tuple[str, ...]


MmuMessage = MmuMap | MmuUnmap
