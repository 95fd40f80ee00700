"""A replicated tensor that a kernel gets whole: each PE takes its own copy of it."""

import numpy as np
import pytest
from components_two_cubes import HOST

from kb_engine import Engine, Host, Sharding
from kb_messages import KernelError

LOCAL = 3000 + 4000 + 2000
"""Issue, decoding and set-up. A DMA reaches the TCM of its PE without links, in 10 picoseconds a byte and 4000."""


def whole(tl, a):
    tl.load(a)


def data(nbytes=512):
    return np.arange(nbytes).astype(np.int8)


@pytest.mark.parametrize("grid", [None, 2], ids=["one program a PE", "a grid"])
def test_every_pe_reads_its_own_copy(chip_host, two_pes, noc, grid):
    host = chip_host(*two_pes, *noc, ("issue_ns: 3", "issue_ns: 3, program_ns: 0"))
    a = host.tensor("a", data(), "i8", shard="replica", memory="tcm")
    result = host.launch(whole, a, grid=grid)
    assert list(result.pe_end_ps.values()) == [LOCAL + 512 * 10 + 4000] * 2


def test_a_shard_is_that_of_its_owner_whoever_asks(chip_host, two_pes, noc):
    host = chip_host(*two_pes, *noc)
    a = host.tensor("a", data(), "i8", shard="replica", memory="tcm")
    result = host.launch(lambda tl, a: tl.load(a.shard(0)), a)
    first, second = result.pe_end_ps.values()
    assert first == LOCAL + 512 * 10 + 4000
    assert second > first  # over the NOC


def test_a_pe_without_a_copy_takes_one_of_its_cube(chip):
    host = Host(Engine(chip(*HOST)))
    a = host.tensor("a", data(), "i8", shard=Sharding(cubes="replica", pes="replica", owners=(0, 2)))
    ends = list(host.launch(whole, a).pe_end_ps.values())
    # Both PEs of a cube read the copy in its one slice, one after the other, and the cubes do not meet.
    assert ends[:2] == ends[2:]
    assert ends[1] - ends[0] == 512 * 20


def test_a_store_to_the_whole_goes_to_the_own_copy(chip_host, two_pes):
    def kernel(tl, a, b):
        tl.store(b, tl.load(a))

    def one_of_them(tl, a, b):
        if tl.program_id(0):
            tl.store(b, tl.load(a))

    host = chip_host(*two_pes)
    a = host.tensor("a", data(), "i8", shard="replica")
    b = host.tensor("b", data() - 1, "i8", shard="replica")
    host.launch(kernel, a, b)
    np.testing.assert_array_equal(host.read(b), data())
    c = host.tensor("c", data() - 1, "i8", shard="replica")
    host.launch(one_of_them, a, c)
    with pytest.raises(KernelError, match="needs copies that agree"):
        host.read(c)


def test_a_mapped_replica_is_the_own_copy_too(chip_host, two_pes, mmu):
    host = chip_host(*two_pes, *mmu)
    a = host.tensor("a", data(), "i8", shard="replica")
    v = host.map(a)
    refs = [v.ref.matrix(pe_id).address for pe_id in host.engine.pes]
    assert refs == [grid[0][0] for grid in v.virtual]
    host.launch(lambda tl, v: tl.load(v[3:9]), v)
