"""Tensors over a named set of slices: times by hand, and bytes counted one by one.

A load of n bytes takes 10,000 to the slices (as in test_interleaved), and 30,000 there. A slice sends 20 picoseconds a
byte, and the link of the DMA, 1000 further, 10 a byte. So three slices are faster than the link.
"""

import random
from itertools import pairwise

import numpy as np
import pytest

from kb_components.memory.hbm.fixed import HbmFixed
from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import read_tensor
from kb_engine.memory.allocator import OutOfMemoryError
from kb_messages import KernelError, split_address

FIVE = (
    ("impl: builtin.hbm_fixed, count: 1", "impl: builtin.hbm_fixed, count: 5"),
    ('{from: "xbar[0]", to: "hbm[0]"', '{from: "xbar[0]", to: "hbm[*]"'),
)
SETS = """wire_ps_per_mm: 0
interleaved:
  some: {slices: ["sip[0].cube[0].hbm[3]", "sip[0].cube[0].hbm[0:2]"], granule_nbytes: 64}
  all: {slices: "sip[0].cube[0].hbm[*]", granule_nbytes: 128}"""
NAMED = (*FIVE, ("wire_ps_per_mm: 0", SETS))
ACROSS = """wire_ps_per_mm: 0
cubes_per_sip: 2
sip: {links: [{from: "cube[0].xbar[0]", to: "cube[1].xbar[0]", bw_gbs: 100, length_mm: 0}]}
interleaved:
  both: {slices: "sip[*].cube[*].hbm[*]", granule_nbytes: 64, default: true}"""
TWO_CUBES = (("wire_ps_per_mm: 0", ACROSS),)
HEAD = 3000 + 4000 + 2000 + 1000 + 30_000 + 1000
"""From the call to the first byte at the link of the DMA."""


def loading(tl, a):
    tl.load(a[:])


@pytest.fixture
def asked(monkeypatch):
    """What slices are asked for: the number of the slice, and the numbers of its bytes."""
    told = []
    serve = HbmFixed.reserve

    def reserve(self, t_ps, memory, last_byte_ps, write):
        first = split_address(memory.base)[1]
        rows = range(first, first + memory.rows * memory.stride, memory.stride) if memory.rows > 1 else [first]
        told.append((int(self.node_id[-1]), [at + byte for at in rows for byte in range(memory.row_nbytes)]))
        return serve(self, t_ps, memory, last_byte_ps, write)

    monkeypatch.setattr(HbmFixed, "reserve", reserve)
    return told


@pytest.mark.parametrize(
    ("memory", "nbytes", "bytes_ps"),
    [
        ("some", 960, 960 * 10),  # 320 bytes from each of three slices: the link is the narrowest
        ("some", 64, 64 * 20),  # one slice
        ("some", 96, 96 * 10),  # 64 bytes and 32: 1280 at the slice is more than 960 at the link
        ("all", 1000, 1000 * 10),
    ],
)
def test_a_load_is_one_request_for_each_slice_of_the_set(chip_host, memory, nbytes, bytes_ps):
    host = chip_host(*NAMED)
    a = host.tensor("a", np.arange(nbytes).astype(np.int8), "i8", memory=memory)
    result = host.launch(loading, a)
    assert result.end_ps == HEAD + max(bytes_ps, min(nbytes, 64) * 20)


def test_granules_lie_in_the_slices_in_the_order_of_the_set(chip_host, asked):
    host, rng, order = chip_host(*NAMED), random.Random(3), (3, 0, 1)
    n = 4000
    a = host.tensor("a", np.zeros(n, np.int8), "i8", memory="some")
    start = split_address(a.addresses[0][0])[1]
    for _ in range(20):
        first = rng.randrange(n - 1)
        last = rng.randrange(first + 1, n)
        asked.clear()
        host.launch(lambda tl, a, first=first, last=last: tl.load(a[first:last]), a)
        expected: dict[int, list[int]] = {}
        for byte in range(start + first, start + last):
            granule, within = divmod(byte, 64)
            expected.setdefault(order[granule % 3], []).append(granule // 3 * 64 + within)
        assert dict(asked) == expected


def test_a_set_over_two_cubes_is_the_default_and_wakes_both(chip_host):
    writer = MemoryLogWriter()
    host = chip_host(*TWO_CUBES, writer=writer)
    a = host.tensor("a", np.arange(64 * 64, dtype=np.float32).reshape(64, 64), "f32")
    b = host.empty("b", (64, 64), "f32")

    def twice(tl, a, b):
        rows = slice(32 * tl.program_id(), 32 * tl.program_id() + 32)
        tl.store(b[rows], tl.load(a[rows]) * 2)

    host.launch(twice, a, b, pes="all")
    memory = Executor(host.engine.close_log(), host.engine.initial_memory, "fused").run()
    assert (read_tensor(memory, b) == 2 * np.arange(64 * 64).reshape(64, 64)).all()


def test_sets_share_slices_and_no_byte_has_two_holders(chip_host):
    """Takes and gives back at random, and looks up where every byte of every tensor is."""
    host, rng = chip_host(*FIVE, ("wire_ps_per_mm: 0", f"{SETS}\nhbm_interleave_nbytes: 64")), random.Random(5)
    regions, live = host.engine.topology.address_map.interleaved, {}
    for number in range(60):
        if live and rng.random() < 0.4:
            host.free(live.pop(rng.choice(sorted(live))))
            continue
        where = rng.choice([{"memory": "some"}, {"memory": "all"}, {}, {"slices": [rng.randrange(5)]}])
        live[number] = host.empty(f"t{number}", (rng.choice([1, 7000, 100_000]),), "i8", **where)
    held = []
    for tensor in live.values():
        owner, offset = split_address(tensor.addresses[0][0])
        region = regions.get(owner)
        if region is None:
            held.append((owner, offset, offset + tensor.shape[0]))
            continue
        for part in region.interleaving.parts(offset, 1, tensor.shape[0], tensor.shape[0]):
            slice_owner, start = split_address(region.slices[part.number] + part.offset)
            held.append((slice_owner, start, start + part.row_nbytes))
    held.sort()
    assert len(held) > 40
    for (one, _, end), (other, start, _) in pairwise(held):
        assert one != other or end <= start
    for tensor in live.values():
        host.free(tensor)
    host.empty("whole", ((1 << 20) * 5,), "i8", memory="all")


def test_what_a_set_cannot_hold_is_refused(chip_host):
    host = chip_host(*NAMED)
    with pytest.raises(OutOfMemoryError, match="tensor a in some: got a request for 3145792 bytes, needs at most"):
        host.empty("a", (3 * (1 << 20) + 64,), "i8", memory="some")
    with pytest.raises(KernelError, match="memory='most', needs 'hbm' or 'sram' or 'tcm' or 'some' or 'all'"):
        host.empty("a", (4,), "i8", memory="most")
    with pytest.raises(KernelError, match="memory='some' with blocks, slices, shard or cube, needs one of them"):
        host.empty("a", (4,), "i8", memory="some", slices=[0])
    host.empty("a", (3 << 20,), "i8", memory="some")


def test_a_full_set_says_what_is_free_in_all_its_slices(chip_host):
    host = chip_host(*NAMED)
    host.empty("a", (1 << 20,), "i8", memory="some")
    host.empty("b", (1 << 18,), "i8", slices=[1])
    host.empty("c", (1 << 19,), "i8", memory="some")
    free = (3 << 20) - (1 << 20) - 3 * (1 << 18) - (1 << 19)
    with pytest.raises(OutOfMemoryError) as caught:
        host.empty("d", (10**12,), "i8", memory="some")
    assert str(caught.value) == (
        f"tensor d in some: got a request for 1000000000000 bytes, needs at most {free - 192} in one piece "
        f"({free} of 3145728 are free, a holds 1048576, c holds 524288, b holds 262144); "
        "use smaller tensors or a larger memory"
    )
    with pytest.raises(OutOfMemoryError):
        host.empty("d", (free - 191,), "i8", memory="some")
    host.empty("d", (free - 192,), "i8", memory="some")
    host.empty("e", (128,), "i8", memory="some")
    host.empty("f", (64,), "i8", memory="some")
    with pytest.raises(OutOfMemoryError, match=r"needs at most 0 in one piece \(0 of 3145728 are free"):
        host.empty("g", (1,), "i8", memory="some")


def test_a_tensor_larger_than_a_slice_says_how_to_spread_it(chip_host):
    with pytest.raises(OutOfMemoryError) as caught:
        chip_host(*NAMED).empty("a", ((1 << 20) + 1,), "i8", slices=[2])
    assert str(caught.value).endswith(
        "; cut it into `blocks` for several slices, or lay it over slices with memory='some', or lay it over slices "
        "with memory='all'"
    )
