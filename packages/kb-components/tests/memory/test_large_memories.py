"""Memories over 4 GiB, and systems whose addresses have more than 63 bits."""

import numpy as np
import pytest

from kb_components.memory.cache.cached import LineFinder
from kb_components.memory.cache.tags import Tags
from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import read_tensor
from kb_messages import Rectangle, join_address, split_address

GIB = 1 << 30
LARGE = (("size: 1 MiB}, bw_gbs: 50", "size: 256 GiB}, bw_gbs: 50"),)
FLAT = (
    *LARGE,
    ("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\nhbm_interleave_nbytes: 256"),
    ("impl: builtin.hbm_fixed, count: 1", "impl: builtin.hbm_fixed, count: 3"),
    ('{from: "xbar[0]", to: "hbm[0]"', '{from: "xbar[0]", to: "hbm[*]"'),
    ("256 GiB", "40 GiB"),
)
NINE_SIPS = (("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\nsips: 9"),)
CACHED = (
    *LARGE,
    (
        "impl: builtin.hbm_fixed, count: 1",
        "impl: builtin.cached, count: 1, sets: 64, ways: 4, cache_bw_gbs: 100, cache_latency_ns: 10",
    ),
)


def product(tl, a, b, c):
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))


def rows_of(tl, a, b):
    tl.store(b[:], tl.load(a[np.array([5, 1, 8])]))


def checked_product(host, **where):
    """Whether a product of tensors in *where* is right, and the addresses of its tensors."""
    before_nbytes = host.engine.memory.store.nbytes_held
    data = np.random.default_rng(1).standard_normal((2, 48, 48)).astype(np.float16)
    a, b = (host.tensor(name, each, "f16", **where) for name, each in zip("ab", data, strict=True))
    c = host.empty("c", (48, 48), "f32", **where)
    found = host.launch(product, a, b, c, pes=[len(host.engine.pes) - 1])
    memory = Executor(host.engine.close_log(), host.engine.initial_memory, "fused").run()
    one, other = data.astype(np.float64)
    np.testing.assert_allclose(read_tensor(memory, c), one @ other, atol=1e-3)
    assert memory.nbytes_held - before_nbytes < 1 << 20
    return found.end_ps, [each.addresses[0][0] for each in (a, b, c)]


@pytest.mark.parametrize("changes", [LARGE, CACHED])
def test_a_product_far_into_a_memory_takes_what_it_takes_at_its_begin(chip_host, changes):
    host = chip_host(*changes, writer=MemoryLogWriter())
    host.empty("before", (200 * GIB,), "i8")
    end_ps, addresses = checked_product(host)
    assert all(split_address(each)[1] >= 200 * GIB for each in addresses)
    assert end_ps == checked_product(chip_host(*changes, writer=MemoryLogWriter()))[0]


def test_a_flat_tensor_can_be_larger_than_a_slice(chip_host):
    host = chip_host(*FLAT, writer=MemoryLogWriter())
    first = host.empty("weights", (100 * GIB,), "i8")
    second = host.empty("more", (4 * GIB - 768 * 1024,), "i8")
    _, addresses = checked_product(host)
    assert {each >> 38 for each in addresses} == {second.addresses[0][0] >> 38}
    assert first.addresses[0][0] >> 38 == (second.addresses[0][0] >> 38) - 1
    host.free(first)
    host.free(second)
    assert host.empty("slice", (30 * GIB,), "i8", slices=[0]).addresses[0][0] & 7 == 0


def test_a_product_in_the_ninth_sip_has_addresses_of_64_bits(chip_host):
    host = chip_host(*NINE_SIPS, writer=MemoryLogWriter())
    end_ps, addresses = checked_product(host, slices=[8])
    assert all(each.bit_length() == 64 for each in addresses)
    assert end_ps == checked_product(chip_host(writer=MemoryLogWriter()))[0]


def test_rows_that_a_kernel_picks_are_logged_at_addresses_of_64_bits(chip_host):
    host = chip_host(*NINE_SIPS, writer=MemoryLogWriter())
    data = np.arange(160, dtype=np.int32).reshape(10, 16)
    a, b = host.tensor("a", data, "i32", slices=[8]), host.empty("b", (3, 16), "i32", slices=[8])
    host.launch(rows_of, a, b, pes=[8])
    memory = Executor(host.engine.close_log(), host.engine.initial_memory, "fused").run()
    assert (read_tensor(memory, b) == data[[5, 1, 8]]).all()


def test_lines_of_far_pages_are_found_as_near_ones_are():
    tags, finder, rng = Tags(8, 2, hashed=False), LineFinder(128), np.random.default_rng(2)
    held: dict[int, int] = {}
    sets: dict[int, list[int]] = {number: [] for number in range(8)}
    for moment in range(1, 400):
        at = int(rng.choice([0, 2**21 - 256, 200 * GIB, 255 * GIB])) + int(rng.integers(0, 40)) * 128
        lines = finder.lines(Rectangle(join_address(1, at), 1, int(rng.integers(1, 900)), 0))
        found = tags.look(lines)
        assert found.missing.tolist() == [line for line in lines.tolist() if line not in held]
        assert found.ready_ps == max([held[line] for line in lines.tolist() if line in held], default=0)
        tags.take(found.missing, moment)
        for line in found.missing.tolist():
            if len(sets[line % 8]) == 2:
                held.pop(sets[line % 8].pop(0))
            sets[line % 8].append(line)
            held[line] = moment
