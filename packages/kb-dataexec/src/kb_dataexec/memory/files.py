"""The contents of a MemoryStore on disk: an index and plain .npy files. README.md describes the format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from kb_dataexec.memory.extent import Extent

FORMAT: Final = "kernbench-memory"
VERSION: Final = 1
INDEX: Final = "index.json"

RegionRow = tuple[int, int, str]
"""(owner, nbytes, label) of a memory."""


def save(folder: Path, regions: Sequence[RegionRow], held: Sequence[tuple[int, Extent]]) -> None:
    """Write the memories *regions* and the (owner, extent) pairs *held* to *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    index = {
        "format": FORMAT,
        "version": VERSION,
        "regions": [{"owner": owner, "nbytes": nbytes, "label": label} for owner, nbytes, label in regions],
        "extents": [_save_extent(folder, number, *pair) for number, pair in enumerate(held)],
    }
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def load(folder: Path) -> tuple[list[RegionRow], list[tuple[int, Extent]]]:
    """The regions and extents that `save` wrote. Raises OSError, ValueError, KeyError or TypeError without them."""
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    if (index["format"], index["version"]) != (FORMAT, VERSION):
        raise ValueError(f"{index['format']} version {index['version']}")
    regions = [(region["owner"], region["nbytes"], region["label"]) for region in index["regions"]]
    return regions, [(entry["owner"], _load_extent(folder, entry)) for entry in index["extents"]]


def _load_extent(folder: Path, entry: dict[str, str | int | None]) -> Extent:
    data, mask = (
        None if entry[field] is None else np.load(folder / str(entry[field]), allow_pickle=False)
        for field in ("data", "valid")
    )
    if data is None or data.dtype != np.uint8 or (mask is not None and (mask.dtype, mask.shape) != ("?", data.shape)):
        raise ValueError(f"an extent of other types or lengths than bytes and flags ({entry['data']})")
    return Extent(int(str(entry["offset"])), data, mask)


def _save_extent(folder: Path, number: int, owner: int, extent: Extent) -> dict[str, object]:
    held = slice(extent.start - extent.base, extent.stop - extent.base)
    entry: dict[str, object] = {"owner": owner, "offset": extent.start, "data": f"{number:06d}.npy", "valid": None}
    data = extent.data[held]
    if extent.n_valid < extent.nbytes:
        assert extent.mask is not None
        entry["valid"] = f"{number:06d}.valid.npy"
        data = data * extent.mask[held]
        np.save(folder / str(entry["valid"]), extent.mask[held])
    np.save(folder / str(entry["data"]), data)
    return entry
