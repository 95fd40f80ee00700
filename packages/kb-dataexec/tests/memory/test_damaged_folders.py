"""A memory folder whose index or arrays were damaged or forged is refused in one sentence."""

import json
import os

import numpy as np
import pytest

from kb_dataexec.memory.store import MemoryStore, StoreError

HBM = 0x400


@pytest.fixture
def saved(tmp_path):
    """A memory of two extents; the second has flags."""
    store = MemoryStore([(HBM, 1 << 12, "hbm0")])
    store.write(HBM, 0, bytes(range(16)))
    store.reserve(HBM, 64, 16)
    store.write(HBM, 68, b"abcd")
    store.save(tmp_path / "memory")
    return tmp_path / "memory"


def refused(folder):
    with pytest.raises(StoreError) as caught:
        MemoryStore.load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def change(folder, edit):
    path = folder / "index.json"
    index = json.loads(path.read_text())
    edit(index)
    path.write_text(json.dumps(index))


@pytest.mark.parametrize("value", [None, True, -1, 1 << 70, 1.5, -0.0, float("nan"), "x", {}, [0]])
@pytest.mark.parametrize(
    "place", ["regions", "extents", "regions.0", "regions.0.owner", "regions.0.nbytes", "extents.0", "extents.0.owner",
              "extents.0.offset", "extents.1.data"],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(saved, place, value):
    *way, last = (int(part) if part.isdecimal() else part for part in place.split("."))

    def edit(index):
        for part in way:
            index = index[part]
        index[last] = value

    change(saved, edit)
    refused(saved)


@pytest.mark.parametrize("field", ["data", "valid"])
@pytest.mark.parametrize("name", ["../000000.npy", "/etc/passwd", "", ".", "link.npy", "a\0b", "sub/../000000.npy"])
def test_a_name_that_leads_out_of_the_folder_is_refused(saved, field, name):
    (saved / "link.npy").symlink_to(saved / "000000.npy")
    change(saved, lambda index: index["extents"][1].update({field: name}))
    refused(saved)


@pytest.mark.parametrize(
    ("edit", "got"),
    [
        (lambda index: index["regions"].append(index["regions"][0]), "got 2 regions of owner 0x400, needs one"),
        (lambda index: index["extents"].append(index["extents"][0]), "needs extents that do not overlap"),
        (lambda index: index["extents"][1].update(offset=8), "needs extents that do not overlap"),
        (lambda index: index["extents"][0].update(offset=4090), "needs a range within its 0x1000 bytes"),
        (lambda index: index["extents"][0].update(offset=1 << 62), "needs a range within its 0x1000 bytes"),
        (lambda index: index["extents"][0].update(owner=7), "got no memory of that number"),
        (lambda index: index["extents"][1].update(valid=None, data="000001.valid.npy"), "got an array of bool"),
        (lambda index: index["extents"][1].update(valid="000001.npy"), "got an array of uint8"),
    ],
)
def test_regions_and_extents_that_cannot_be_are_refused(saved, edit, got):
    change(saved, edit)
    assert got in refused(saved)


def test_flags_that_are_neither_0_nor_1_or_too_few_are_refused(saved):
    path = saved / "000001.valid.npy"
    np.save(path, np.full(16, 0xFF, np.uint8).view(np.bool_))
    assert f"{path}: got flags of other bytes than 0 and 1" in refused(saved)
    np.save(path, np.ones(15, np.bool_))
    assert f"{path}: got 15 flags, needs one for each of the 16 bytes" in refused(saved)


@pytest.mark.parametrize("name", ["index.json", "000000.npy", "000001.valid.npy"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "nothing"])
def test_a_file_that_is_no_regular_one_is_refused(saved, name, kind):
    path = saved / name
    path.rename(saved.parent / "elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(saved.parent / "elsewhere")
    assert str(path) in refused(saved)
