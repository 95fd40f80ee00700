"""The contents of a MemoryStore on disk: an index and plain .npy files. README.md specifies the format."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from msgspec import Meta, Struct

from kb_dataexec.files import file_in, read_array, read_json, write_array, writing
from kb_dataexec.memory.extent import Extent
from kb_messages import KbError

FORMAT: Final = "kernbench-memory"
VERSION: Final = 1
INDEX: Final = "index.json"

RegionRow = tuple[int, int, str]
"""(owner, nbytes, label) of a memory."""

_Owner = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Nbytes = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class SavedRegion(Struct, frozen=True):
    """An entry of the index: a memory."""

    owner: _Owner
    nbytes: _Nbytes
    label: str


class SavedExtent(Struct, frozen=True):
    """An entry of the index: a run of bytes. `valid` is None if all bytes are valid."""

    owner: _Owner
    offset: _Nbytes
    data: str
    valid: str | None


class Index(Struct, frozen=True):
    """The file `index.json`."""

    format: str
    version: int
    regions: list[SavedRegion]
    extents: list[SavedExtent]


def save(folder: Path, regions: Sequence[RegionRow], held: Sequence[tuple[int, Extent]]) -> None:
    """Writes the memories *regions* and the (owner, extent) pairs *held* to *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    index = {
        "format": FORMAT,
        "version": VERSION,
        "regions": [{"owner": owner, "nbytes": nbytes, "label": label} for owner, nbytes, label in regions],
        "extents": [_save_extent(folder, number, *pair) for number, pair in enumerate(held)],
    }
    with writing(folder / INDEX):
        (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def load(folder: Path, error: type[KbError]) -> tuple[list[RegionRow], list[tuple[int, Extent]]]:
    """Reads the regions and extents that `save` wrote.

    Raises *error* for missing or damaged files, for two regions with one owner, and for extents that overlap.
    """
    path = file_in(folder, INDEX, error)
    index = read_json(path, Index, error)
    if (index.format, index.version) != (FORMAT, VERSION):
        got = f"{index.format[:80]!r} version {str(index.version)[:20]}"
        raise error(str(path), got, f"{FORMAT!r} version {VERSION}")
    regions = [(region.owner, region.nbytes, region.label) for region in index.regions]
    for owner, count in Counter(owner for owner, _, _ in regions).items():
        if count > 1:
            raise error(f"{path}: regions", f"{count} regions of owner {owner:#x}", "one")
    held = [(entry.owner, _load_extent(folder, entry, error)) for entry in index.extents]
    _check_apart(path, held, error)
    return regions, held


def _check_apart(path: Path, held: list[tuple[int, Extent]], error: type[KbError]) -> None:
    ranges = sorted((owner, extent.start, extent.stop) for owner, extent in held)
    for (owner, start, stop), (other, low, high) in pairwise(ranges):
        if owner == other and low < stop:
            got = f"bytes {start:#x} to {stop:#x} and {low:#x} to {high:#x} of owner {owner:#x}"
            raise error(f"{path}: extents", got, "extents that do not overlap")


def _load_extent(folder: Path, entry: SavedExtent, error: type[KbError]) -> Extent:
    path = file_in(folder, entry.data, error)
    data = read_array(path, error, kinds="u", ndim=1)
    if data.dtype != np.uint8:
        raise error(str(path), f"an array of {data.dtype}", "an array of uint8")
    if entry.valid is None:
        return Extent(entry.offset, data)
    flags = file_in(folder, entry.valid, error)
    mask = read_array(flags, error, kinds="b", ndim=1)
    if mask.shape != data.shape:
        raise error(str(flags), f"{mask.size} flags", f"one for each of the {data.size} bytes")
    return Extent(entry.offset, data, mask)


def _save_extent(folder: Path, number: int, owner: int, extent: Extent) -> dict[str, object]:
    held = slice(extent.start - extent.base, extent.stop - extent.base)
    entry: dict[str, object] = {"owner": owner, "offset": extent.start, "data": f"{number:06d}.npy", "valid": None}
    data = extent.data[held]
    if extent.n_valid < extent.nbytes:
        assert extent.mask is not None
        entry["valid"] = f"{number:06d}.valid.npy"
        data = data * extent.mask[held]
        write_array(folder / str(entry["valid"]), extent.mask[held])
    write_array(folder / str(entry["data"]), data)
    return entry
