"""Tensors in HBM, SRAM and TCM, cut up over the PEs of one cube and of several."""

import re
from itertools import chain

import numpy as np
import pytest
from msgspec.structs import replace

from kb_dataexec import Executor, StoreError
from kb_engine.engine.engine import Engine
from kb_engine.engine.registry import Registry
from kb_engine.host import DeferredRead, Host, Sharding
from kb_engine.memory.allocator import OutOfMemoryError
from kb_messages import KernelError
from kb_topology import AddressMap, Graph

FOUR_PES = (("pe_layout: {count: 1}", "pe_layout: {count: 4}"),)
SLICES = (("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 2"),)
SRAM = (
    (
        "    xbar: {",
        (
            "    sram: {kind: sram, impl: toy.hbm, memory: {space: sram, size: 64 KiB},\n"
            "      ps_per_byte: 1, latency_ps: 1}\n"
            "    xbar: {"
        ),
    ),
    ('to: "hbm[*]", bw', 'to: sram, bw_gbs: 100, length_mm: 0}\n    - {from: "xbar[0]", to: "hbm[*]", bw'),
)
NUMBERS = np.arange(70, dtype=np.int32).reshape(10, 7)


@pytest.fixture
def wide_host(toy_chip, toy_points):
    """A host of 2 SIPs with 2 cubes each, every cube a toy chip with *changes*; no link joins them."""

    def build(*changes, writer=None):
        topology = toy_chip(*changes)
        one = topology.graph
        cubes = [(sip, cube) for sip in range(2) for cube in range(2)]

        def moved(what, names, sip, cube):
            return replace(what, **{n: getattr(what, n).replace("sip0.cube0", f"sip{sip}.cube{cube}") for n in names})

        nodes = [replace(moved(n, ["id"], *at), sip=at[0], cube=at[1]) for at in cubes for n in one.nodes.values()]
        edges = [
            tuple(moved(each, ["src", "dst"], *at) for at in cubes for each in part) for part in (one.links, one.wires)
        ]
        graph = Graph({node.id: node for node in nodes}, *edges)
        topology = replace(topology, graph=graph, address_map=AddressMap.from_graph(graph))
        return Host(Engine(topology, writer, registry=Registry(toy_points)))

    return build


def homes(host, tensor):
    """The node of each block of each copy."""
    regions = host.engine.topology.address_map.by_owner
    return [
        regions[a >> 38].node_id.removeprefix("sip0.cube0.")
        for grid in (tensor.addresses, *tensor.copies)
        for a in chain(*grid)
    ]


@pytest.mark.parametrize(
    ("memory", "nodes"),
    [
        ("hbm", ["hbm0", "hbm0", "hbm1", "hbm1"]),
        ("sram", ["sram"] * 4),
        ("tcm", [f"pe{number}.pe_tcm" for number in range(4)]),
    ],
)
def test_each_shard_lies_in_its_pes_memory(toy_host, memory, nodes):
    host = toy_host(*FOUR_PES, *SLICES, *SRAM)
    tensor = host.tensor("a", NUMBERS, "i32", memory=memory, shard="row")
    assert homes(host, tensor) == nodes
    assert tensor.row_bounds == (0, 2, 5, 7, 10)
    np.testing.assert_array_equal(host.read(tensor), NUMBERS)


def test_as_many_slices_as_pes_are_one_each(toy_host):
    host = toy_host(*FOUR_PES, ("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 6"))
    assert [host.hbm_slice_of(pe) for pe in range(4)] == [0, 1, 2, 3]
    with pytest.raises(KernelError, match=r"^hbm_slice_of: got PE 4, needs 0 to 3$"):
        host.hbm_slice_of(4)


def test_a_kernel_finds_its_shard_and_where_it_is_in_the_whole(toy_host):
    host, seen = toy_host(*FOUR_PES), {}
    a = host.tensor("a", NUMBERS, "i32", shard="column")

    def kernel(tl, a):
        mine = a.shard(tl.program_id())
        seen[tl.program_id()] = (mine.row_slice, mine.col_slice, tl.load(mine[2:4]).data)
        assert a.num_shards == 4

    host.launch(kernel, a)
    for program, cols in enumerate([slice(0, 1), slice(1, 3), slice(3, 5), slice(5, 7)]):
        assert seen[program][:2] == (slice(0, 10), cols)
        np.testing.assert_array_equal(seen[program][2], NUMBERS[2:4, cols])


def test_the_whole_is_still_there_where_one_block_holds_it(toy_host):
    host, seen = toy_host(*FOUR_PES), []
    a = host.tensor("a", NUMBERS, "i32", shard="row")
    host.launch(lambda tl, a: seen.append(tl.load(a[5:7, 1:3]).data), a, pes=[0])
    np.testing.assert_array_equal(seen[0], NUMBERS[5:7, 1:3])


def test_every_owner_of_a_replica_has_its_own_copy(toy_host):
    host, seen = toy_host(*FOUR_PES, *SLICES), []
    a = host.tensor("a", NUMBERS, "i32", shard="replica")
    assert len(set(chain(*a.addresses, *chain(*a.copies)))) == 4
    assert homes(host, a) == ["hbm0", "hbm0", "hbm1", "hbm1"]

    def kernel(tl, a):
        seen.append(tl.load(a.shard(tl.program_id())[9, 6]).data.item())

    host.launch(kernel, a)
    assert seen == [69] * 4
    np.testing.assert_array_equal(host.read(a), NUMBERS)


def test_copies_that_differ_are_an_error_that_shows_where(toy_host):
    host = toy_host(*FOUR_PES)
    a, one = host.tensor("a", NUMBERS, "i32", shard="replica"), host.tensor("b", NUMBERS[:1, :1] + 5, "i32")
    host.launch(lambda tl, a, one: tl.store(a.shard(2)[3, 4], tl.load(one)), a, one, pes=[0])
    with pytest.raises(KernelError) as caught:
        host.read(a)
    assert str(caught.value) == (
        "read of a: got 25 at [3, 4] of its first copy and 5 of copy 2, needs copies that agree; have every owner "
        "write the same to its copy"
    )


def test_owners_are_the_named_pes(toy_host):
    host = toy_host(*FOUR_PES)
    a = host.empty("a", (2, 3), "i32", memory="tcm", shard=Sharding(owners=(3, 1)))
    assert homes(host, a) == ["pe3.pe_tcm", "pe1.pe_tcm"]


def test_levels_of_two_sips_and_two_cubes_are_cut_apart(wide_host):
    host = wide_host(("pe_layout: {count: 1}", "pe_layout: {count: 2}"), *SLICES)
    a = host.tensor("a", NUMBERS, "i32", shard=Sharding(sips="replica", cubes="column", pes="row"))
    assert (a.n_copies, a.row_bounds, a.col_bounds) == (2, (0, 5, 10), (0, 3, 7))
    # Block (i, j) of a copy: the copy is the SIP's, column j its cube j's, row i PE i's, whose slice is i.
    assert homes(host, a) == [
        node.removeprefix("sip0.cube0.")
        for sip in range(2)
        for pe in range(2)
        for cube in range(2)
        for node in [f"sip{sip}.cube{cube}.hbm{pe}"]
    ]
    np.testing.assert_array_equal(host.read(a), NUMBERS)
    seen = {}
    host.launch(lambda tl, a: seen.update({tl.program_id(): tl.load(a.shard(tl.program_id())).data}), a)
    for program in range(8):
        _, cube, pe = program // 4, program // 2 % 2, program % 2
        np.testing.assert_array_equal(seen[program], NUMBERS[5 * pe : 5 * pe + 5, slice(3 * cube, 3 + 4 * cube)])


def test_every_cubes_pes_use_their_own_cubes_memories(wide_host):
    host = wide_host(*SRAM)
    assert (host.num_pes, host.num_slices) == (4, 4)
    assert [host.hbm_slice_of(pe) for pe in range(4)] == [0, 1, 2, 3]
    for memory in ("hbm0", "sram", "pe0.pe_tcm"):
        name = memory.rstrip("0").removeprefix("pe0.pe_")
        nodes = [f"sip{sip}.cube{cube}.{memory}" for sip in range(2) for cube in range(2)]
        a = host.empty("a", (4,), "i8", memory=name, shard="column")
        assert homes(host, a) == [node.removeprefix("sip0.cube0.") for node in nodes]


def test_a_sharded_result_is_whole_after_pass_two(toy_host, writer):
    host = toy_host(*FOUR_PES, writer=writer)
    array = np.random.default_rng(3).standard_normal((24, 16)).astype(np.float32)
    square = np.random.default_rng(4).standard_normal((16, 16)).astype(np.float32)
    a = host.tensor("a", array, "f32", shard="row")
    b = host.tensor("b", square, "f32", shard="replica")
    c = host.empty("c", (24, 16), "f32", shard="row")
    copies = host.empty("d", (16, 16), "f32", shard="replica")

    def kernel(tl, a, b, c, d):
        mine = tl.program_id()
        tl.composite("gemm", a.shard(mine), b.shard(mine), out=c.shard(mine), tile=(6, 16, 16))
        tl.composite("gemm", b.shard(mine), b.shard(mine), out=d.shard(mine), tile=(16, 16, 16))

    host.launch(kernel, a, b, c, copies)
    reads = [host.read(c), host.read(copies)]
    assert all(isinstance(each, DeferredRead) for each in reads)
    memory = Executor(host.engine.close_log(), host.engine.initial_memory, "tile").run()
    for read, expected in zip(
        reads, (array.astype(np.float64) @ square, square.astype(np.float64) @ square), strict=True
    ):
        np.testing.assert_allclose(read.resolve(memory), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"memory": "reg"}, "got memory='reg', needs 'hbm' or 'sram' or 'tcm'"),
        ({"memory": "sram"}, "got a topology without SRAM, needs at least one SRAM"),
        ({"memory": "sram", "shard": "row"}, "sip0.cube0: got a cube without SRAM, needs some"),
        ({"memory": "tcm", "slices": [4]}, "got slices [4], needs a number from 0 to 3 for each of 1 blocks"),
        ({"shard": "row", "blocks": (2, 1)}, "got shard and blocks or slices, needs one of the two"),
        ({"shard": "row", "slices": [0]}, "got shard and blocks or slices, needs one of the two"),
        (
            {"shard": "row"},
            (
                "got 4 shards, 4 x 1 blocks of 3 x 9, needs at most one per row, column; cut the other way, name fewer "
                "`owners`, or use 'replica' at a level"
            ),
        ),
        ({"shard": Sharding(owners=(4,))}, "got PE 4, needs 0 to 3"),
        ({"shard": Sharding(owners=(1, 1))}, "got PEs [1, 1], needs each at most once"),
    ],
)
def test_wrong_arguments_of_empty_are_refused(toy_host, arguments, message):
    host = toy_host(*FOUR_PES)
    with pytest.raises((KernelError, OutOfMemoryError)) as caught:
        host.empty("a", (3, 9), "i32", **arguments)
    where = "" if message.startswith("sip0") else "tensor a: "
    assert str(caught.value) == where + message


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (lambda a, b: a.shard(4), "a[0:10, 0:7]: got shard 4, needs 0 to 3"),
        (lambda a, b: a.shard(-1), "a[0:10, 0:7]: got shard -1, needs 0 to 3"),
        (
            lambda a, b: a[0:2].shard(0),
            "a[0:2, 0:7]: got shard of a slice, needs shard of the whole tensor; slice the shard",
        ),
        (
            lambda a, b: b.shard(0),
            (
                "b[0:10, 0:7]: got shard of a tensor that has none, needs a sharded tensor; allocate it with "
                "shard='row', 'column' or 'replica'"
            ),
        ),
    ],
)
def test_a_shard_that_is_not_there_is_refused(toy_host, part, message):
    host = toy_host(*FOUR_PES)
    a, b = host.empty("a", (10, 7), "i32", shard="row"), host.empty("b", (10, 7), "i32")
    with pytest.raises(KernelError) as caught:
        part(a.ref, b.ref)
    assert str(caught.value) == message


def test_a_full_memory_says_who_holds_it(toy_host):
    host = toy_host()
    for name, kib in (("a", 100), ("b", 500), ("c", 20), ("d", 300)):
        host.empty(name, (kib * 1024,), "i8")
    with pytest.raises(OutOfMemoryError) as caught:
        host.empty("e", (200, 1024), "i8", (2, 1))
    # 1024 - 920 = 104 KiB are free; the first block of 100 KiB fits, the second does not.
    assert str(caught.value) == (
        "tensor e in sip0.cube0.hbm0: got a request for 102400 bytes, needs at most 4096 in one piece (4096 of 1048576 "
        "are free, b holds 512000, d holds 307200, a holds 102400); use smaller tensors or a larger memory"
    )
    host.empty("f", (104 * 1024,), "i8")  # what the first block had is free again


def make_of_another_type(host):
    host.tensor("a", NUMBERS, "f32", memory="tcm")


def make_more_than_fit(host):
    host.replicas("a", np.zeros((1, 100 * 1024), np.int8), "i8", slices=[[0], [0]], memory="tcm")  # of 128 KiB


def make_but_interrupt(host):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kb_dataexec.MemoryStore.write_tensor", interrupt)
        host.tensor("a", NUMBERS, "i32", memory="tcm")


@pytest.mark.parametrize("make", [make_of_another_type, make_more_than_fit, make_but_interrupt])
def test_tensors_whose_making_fails_take_no_memory(toy_host, make):
    host = toy_host()
    with pytest.raises((KernelError, OutOfMemoryError, KeyboardInterrupt)):
        make(host)
    whole = host.empty("b", (128 * 1024,), "i8", memory="tcm")
    with pytest.raises(StoreError, match="were released"):
        host.read(whole)


def test_a_kernels_tcm_and_the_hosts_tensors_share_one_allocator(toy_host):
    host, seen = toy_host(), []
    tensor = host.empty("a", (100, 1024), "i8", memory="tcm")  # of 128 KiB

    def kernel(tl, rows, many):
        loaded = [tl.load(rows) for _ in range(many)]
        seen.append([each.place.address for each in loaded])

    rows = host.tensor("b", np.ones((10, 1024), np.int8), "i8")
    host.launch(kernel, rows, 2)
    first = tensor.addresses[0][0]
    assert seen[-1] == [first + 100 * 1024, first + 110 * 1024]
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, rows, 3)
    at = f"test_tensor_memory.py:{kernel.__code__.co_firstlineno + 1}"
    assert str(caught.value).endswith(
        f"sip0.cube0.pe0.pe_tcm: got a request for 10240 bytes, needs at most 8192 in one piece (8192 of 131072 are "
        f"free, a holds 102400, {at} holds 20480); keep fewer values at a time, or smaller ones"
    )


def test_tcm_of_a_kernel_is_free_for_the_host_when_it_ends(toy_host):
    host = toy_host()
    rows = host.tensor("b", np.ones((100, 1024), np.int8), "i8")
    for _ in range(3):
        host.launch(lambda tl, rows: tl.load(rows), rows)
        tensor = host.empty("a", (128, 1024), "i8", memory="tcm")
        host.free(tensor)


def test_tcm_that_held_a_pending_result_is_not_pending_for_the_host(toy_host):
    host = toy_host()
    a = host.tensor("a", np.ones((16, 16), np.float32), "f32")
    host.launch(lambda tl, a: tl.wait(tl.composite("gemm", a, a, tile=(16, 16, 16))), a)
    with pytest.raises(StoreError, match="were never written"):
        host.read(host.empty("c", (16, 16), "f32", memory="tcm"))


@pytest.mark.parametrize(
    ("shape", "part", "blocks", "named"),
    [
        ((6, 8), (slice(0, 3),), (1, 1), "c[3, 0]"),
        ((6, 8), (slice(0, 6), slice(0, 5)), (1, 1), "c[0, 5]"),
        ((2, 3, 4), (0,), (1, 1), "c[1, 0, 0]"),
        ((20,), (slice(0, 10),), (1, 2), "c[10]"),
        ((6, 8), (slice(0, 3), slice(0, 4)), (2, 2), "c[0, 4]"),
    ],
)
def test_a_read_names_the_first_unwritten_element(toy_host, shape, part, blocks, named):
    host = toy_host()
    c = host.empty("c", shape, "f32", blocks=blocks, slices=[0] * (blocks[0] * blocks[1]))
    a = host.tensor("a", np.ones(shape, np.float32), "f32")
    host.launch(lambda tl, a, c: tl.store(c[part], tl.load(a[part])), a, c, pes=[0])
    with pytest.raises(StoreError, match=rf"were never written, first that of {re.escape(named)}, needs"):
        host.read(c)
