"""HBM interleaved over the slices of a cube, by hand on the round chip with four slices and granules of 64 bytes.

A load of n bytes takes 3000 (issue) + 4000 (decode) + 2000 (set-up) + 1000 (crossbar) = 10,000 to the slices, and
30,000 there. A slice sends 20 picoseconds a byte, and the link from the crossbar to the DMA, 1000 further, 10 a byte.
So four slices are twice as fast as the link, and two are as fast.
"""

import random

import numpy as np
import pytest

from kb_components.memory.hbm.fixed import HbmFixed
from kb_dataexec import Executor, MemoryLogWriter
from kb_dataexec.analysis import where
from kb_messages import DType, KernelError, MmuMap, Rectangle, split_address

FOUR = (
    ("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\nhbm_interleave_nbytes: 64"),
    ("impl: builtin.hbm_fixed, count: 1", "impl: builtin.hbm_fixed, count: 4"),
    ('{from: "xbar[0]", to: "hbm[0]"', '{from: "xbar[0]", to: "hbm[*]"'),
)
NARROW_PORT = (("setup_ns: 2", "setup_ns: 2, port_nbytes: 40, port_clock_ghz: 1"),)
WIDE_PORT = (("setup_ns: 2", "setup_ns: 2, port_nbytes: 400, port_clock_ghz: 1"),)
HEADERS = (("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\npackets: {payload_nbytes: 1024, header_nbytes: 16}"),)
"""Packets that are longer than a granule: each request of a short transfer has a header of its own."""
HEAD = 3000 + 4000 + 2000 + 1000 + 30_000 + 1000
"""From the call to the first byte at the link of the DMA."""
PE = "sip0.cube0.pe0"


def flat(host, nbytes, name="a"):
    return host.tensor(name, np.arange(nbytes).astype(np.int8), "i8")


def loading(*slices):
    def kernel(tl, a):
        for each in slices:
            tl.load(a[each])

    return kernel


@pytest.fixture
def asked(monkeypatch):
    """What slices are asked for: the number of the slice, the rectangle from its base on, and whether it is written."""
    told = []
    serve = HbmFixed.reserve

    def reserve(self, t_ps, memory, last_byte_ps, write):
        offset = split_address(memory.base)[1]
        told.append((int(self.node_id[-1]), offset, memory.rows, memory.row_nbytes, memory.stride, write))
        return serve(self, t_ps, memory, last_byte_ps, write)

    monkeypatch.setattr(HbmFixed, "reserve", reserve)
    return told


@pytest.fixture
def four(chip_host):
    def build(*changes, **more):
        return chip_host(*FOUR, *changes, **more)

    return build


@pytest.mark.parametrize(
    ("first", "nbytes", "bytes_ps"),
    [
        (0, 1024, 1024 * 10),  # the link is the narrowest
        (0, 128, 128 * 10),  # two slices are as fast as the link
        (0, 64, 64 * 20),  # one slice
        (32, 32, 32 * 20),  # half a granule
        # 24, 64 and 12 bytes of slices 1, 2 and 3. The link is behind until the middle, and ends with slice 2.
        (104, 100, 64 * 20),
        (40, 1000, 1000 * 10),
    ],
)
def test_a_load_is_one_request_for_each_slice(four, first, nbytes, bytes_ps):
    host = four()
    result = host.launch(loading(slice(first, first + nbytes)), flat(host, 2048))
    assert result.end_ps == HEAD + bytes_ps


def test_each_request_has_a_row_where_bytes_lie_in_one_slice_too(four):
    """The second load does what the first one did, and meets nobody either."""
    host = four(writer=MemoryLogWriter())
    result = host.launch(loading(slice(0, 64), slice(0, 64)), flat(host, 2048))
    took_ps = HEAD + 64 * 20
    assert result.end_ps == 2 * took_ps
    rows = host.engine.close_log().tables["transfers"]
    for row, began_ps in zip(rows, (0, took_ps), strict=True):
        sent, head = began_ps + 9000, began_ps + 40_000
        times = sent, sent + 1000, sent + 1000, head, head + 64 * 20
        assert tuple(row)[2:7] == times
        assert tuple(row)[7:] == (1000, 0, -1)
    assert len({row["memory"] for row in rows}) == 1


def test_a_store_is_one_request_for_each_slice(four):
    def kernel(tl, a, b):
        tl.store(b, tl.load(a))

    host = four()
    result = host.launch(kernel, flat(host, 1024), flat(host, 1024, "b"))
    # The link out of the DMA is the narrowest: the slices get 40 picoseconds a byte, and commit 30,000 after the last.
    store_ps = 3000 + 4000 + 2000 + 1000 + 1024 * 10 + 30_000 + 1000
    assert result.end_ps == HEAD + 1024 * 10 + store_ps


def test_two_dmas_queue_at_every_slice(four):
    host = four(("pe_layout: {count: 1}", "pe_layout: {count: 2}"))
    result = host.launch(loading(slice(0, 1024)), flat(host, 1024))
    # Each slice serves 256 bytes to the first, in 5120, and then 256 to the second, whose link is as slow as the other.
    assert list(result.pe_end_ps.values()) == [HEAD + 10_240, HEAD + 5120 + 10_240]


def test_pieces_count_in_the_slices_that_they_lie_in(four, asked):
    host = four()
    a = host.tensor("a", np.zeros((16, 64), np.int8), "i8")
    result = host.launch(loading(np.array([1, 6, 3, 9])), a)
    # A row is a granule: rows 1 and 9 lie in slice 1, row 6 in slice 2 and row 3 in slice 3. The tensor is the last 256
    # bytes of each slice. Rows 1 and 6 are one piece, and rows 3 and 9.
    first = (1 << 20) - 256
    assert asked == [
        (1, first, 1, 128, 128, False),
        (2, first + 64, 1, 64, 64, False),
        (3, first, 1, 64, 64, False),
    ]
    # Slice 1 sends 128 bytes at 20 a byte, and the link takes 256 at 10. A second piece takes 4000.
    assert result.end_ps == HEAD + 4000 + 256 * 10


def test_a_request_names_the_bytes_of_its_slice(four, asked):
    host = four()
    a = host.tensor("a", np.zeros((8, 256), np.int8), "i8")
    host.launch(loading((slice(2, 5), slice(32, 160))), a)
    # The tensor is the last 2048 bytes of the region, so the last 512 of each slice. A row is one round of 256 bytes.
    # From byte 32 of row 2 on: half of granule 0, granule 1, and half of granule 2.
    first = (1 << 20) - 512 + 2 * 64
    assert asked == [
        (0, first + 32, 3, 32, 64, False),
        (1, first, 3, 64, 64, False),
        (2, first, 3, 32, 64, False),
    ]


def test_rows_that_are_no_rounds_apart_are_runs_of_as_many_bytes(four, asked):
    host = four()
    a = host.tensor("a", np.zeros((8, 100), np.int8), "i8")
    result = host.launch(loading((slice(0, 8), slice(0, 50))), a)
    assert sum(rows * row_nbytes for _, _, rows, row_nbytes, _, _ in asked) == 8 * 50
    assert [rows for _, _, rows, *_ in asked] == [1] * 4
    assert result.end_ps >= HEAD + 400 * 10


def test_a_virtual_address_is_split_behind_the_mmu(four, mmu, asked):
    host = four(*mmu)
    a = host.map(flat(host, 8192))
    result = host.launch(loading(slice(4096 - 64, 4096 + 64)), a)
    # Two pages, each with a lookup of 1000 and a walk of 20,000; two granules, of slices 3 and 0.
    assert result.end_ps == HEAD + 2 * 21_000 + 128 * 10
    assert [number for number, *_ in asked] == [0, 3]


def test_pages_are_mapped_at_interleaved_addresses(four, mmu):
    host = four(*mmu)
    a = flat(host, 4096)
    host.send(MmuMap(virtual=0x10000, physical=a.addresses[0][0], nbytes=4096, pes=(PE,)))


def test_what_the_host_names_stays_in_its_slice(four, asked):
    host = four()
    host.launch(loading(slice(0, 256)), host.tensor("a", np.zeros(256, np.int8), "i8", slices=[2]))
    assert asked == [(2, 0, 1, 256, 256, False)]


def test_explicit_transfers_take_as_long_as_without_interleaving(four, chip_host):
    def kernel(tl, a, b):
        tl.store(b, tl.load(a))

    ends = []
    for host in (four(), chip_host(*FOUR[1:])):
        tensors = [host.tensor(name, np.zeros(1000, np.int8), "i8", slices=[1]) for name in "ab"]
        ends.append(host.launch(kernel, *tensors).end_ps)
    assert ends[0] == ends[1]


@pytest.mark.parametrize("write", [False, True], ids=["read", "write"])
@pytest.mark.parametrize(("first", "nbytes"), [(0, 1024), (0, 64), (64, 128), (128, 4096), (40, 20)])
@pytest.mark.parametrize("changes", [(), NARROW_PORT, WIDE_PORT, HEADERS], ids=["plain", "narrow", "wide", "headers"])
def test_the_closed_form_is_the_time_on_an_idle_chip(four, first, nbytes, write, changes):
    host = four(*changes)
    base = flat(host, 8192).addresses[0][0]
    fabric, clock, ended = host.engine.fabric, host.engine.clock, []
    path = fabric.path(f"{PE}.pe_dma", split_address(base)[0])
    memory = Rectangle(base + first, 1, nbytes, nbytes)
    move = fabric.write if write else fabric.read
    clock.call_at(0, lambda _: move(path, memory, 2000, lambda _: ended.append(clock.now_ps), None), None)
    clock.drain()
    assert ended == [2000 + fabric.alone_ps(path, memory, write)[0]]


def test_every_part_of_a_run_is_explained(simulate):
    """Loads, stores and a GEMM of two PEs over the same slices: laws of records, traces and tables, and the path."""

    def kernel(tl, a, b, c, d):
        mine = slice(16 * tl.program_id(), 16 * tl.program_id() + 16)
        tl.store(d[mine, 0:40], tl.load(a[mine]))
        tl.composite("gemm", a, b, out=c if tl.program_id() else d[32:64, 0:48], tile=(16, 16, 16))

    sizes = (32, 40, "f16"), (40, 48, "f16"), (32, 48, "f16"), (64, 48, "f16")
    changes = *FOUR, ("pe_layout: {count: 1}", "pe_layout: {count: 2}")
    run, again = (simulate(kernel, *sizes, changes=changes, pes=(0, 1)) for _ in range(2))
    assert run.digest == again.digest
    found = where(run.log)
    assert found.unexplained_ps == 0
    assert sum(row.ps for row in found.launches[0].rows) == run.end_ps
    assert min(found.launches[0].hidden.values()) >= 0
    moved = [key for key, record in run.records.items() if record.name.startswith("dma")]
    assert sorted(run.log.table("transfers")["op_id"].tolist()) == sorted(run.records[key].op_id for key in moved)


def test_pass_2_sees_one_flat_memory(four):
    """Random programs of a grid on ragged flat tensors, compared with numpy."""
    draw = random.Random(3)
    for _ in range(5):
        size, block = draw.randint(300, 900), draw.randint(20, 200)
        writer = MemoryLogWriter()
        host = four(("pe_layout: {count: 1}", "pe_layout: {count: 2}"), writer=writer)
        x = np.random.default_rng(size).integers(-99, 99, size).astype(np.float32)
        tensors = [host.tensor(name, x, "f32") for name in ("x", "y")] + [host.empty("z", (size,), "f32")]

        def kernel(tl, x, y, z, block=block):
            mine = slice(block * tl.program_id(0), block * (tl.program_id(0) + 1))
            tl.store(z[mine], tl.load(x[mine]) + tl.load(y[mine]))

        host.launch(kernel, *tensors, grid=-(-size // block))
        host.engine.close_log()
        after = Executor(writer.close(), host.engine.initial_memory).run()
        owner, offset = split_address(tensors[2].addresses[0][0])
        np.testing.assert_array_equal(after.read(owner, offset, 1, 4 * size, 4 * size, DType.F32), [2 * x])


def test_a_full_memory_and_wrong_cubes_are_refused(four, chip_host):
    host = four()
    whole = host.empty("whole", (4 << 20,), "i8")  # all bytes of all slices
    for options in ({}, {"slices": [0]}):
        with pytest.raises(Exception, match=r"tensor b in sip0\.cube0\.hbm0?: got a request for 64 bytes"):
            host.empty("b", (64,), "i8", **options)
    host.free(whole)
    host.empty("b", (1 << 20,), "i8", slices=[3])  # what was given back is a slice's again
    with pytest.raises(Exception, match=r"tensor c in sip0\.cube0\.hbm: got a request for 256 bytes"):
        host.empty("c", (256,), "i8")
    for options, message in (
        ({"cube": 1}, "cube=1, needs 0 to 0"),
        ({"cube": 0, "slices": [0]}, "cube=0 with blocks, slices, shard or another memory, needs one of them"),
    ):
        with pytest.raises(KernelError, match=message):
            host.empty("d", (64,), "i8", **options)
    with pytest.raises(KernelError, match="cube=0 on a chip that interleaves no HBM, needs no cube"):
        chip_host().empty("d", (64,), "i8", cube=0)
