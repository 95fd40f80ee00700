import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec import Executor
from kb_engine.host import DeferredRead, read_tensor
from kb_engine.host.sharding import block_bounds
from kb_engine.memory.allocator import OutOfMemoryError
from kb_messages import KernelError

SLICES = (("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 3"),)


@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_tensor_of_any_blocks_is_read_as_it_was_written(toy_engine, data):
    from kb_engine.host import Host

    rows, cols = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    blocks = data.draw(st.tuples(st.integers(1, rows), st.integers(1, cols)))
    host = Host(toy_engine(*SLICES))
    array = np.arange(rows * cols, dtype=np.int32).reshape(rows, cols)
    tensor = host.tensor("a", array, "i32", blocks)
    np.testing.assert_array_equal(host.read(tensor), array)
    assert len(tensor.blocks()) == blocks[0] * blocks[1]


def test_blocks_that_do_not_divide_differ_by_one():
    assert block_bounds(10, 3) == (0, 3, 6, 10)
    assert block_bounds(7, 7) == (0, 1, 2, 3, 4, 5, 6, 7)
    assert block_bounds(5, 1) == (0, 5)


def test_blocks_go_round_the_slices_in_order(toy_host):
    host = toy_host(*SLICES)
    tensor = host.empty("a", (4, 4), "f16", (2, 2))
    owners = [
        region.owner
        for region in host.engine.topology.address_map.regions
        if region.node_id.startswith("sip0.cube0.hbm")
    ]
    # Block i of 4 in slice i * 3 // 4: 0, 0, 1, 2.
    assert [address >> 38 for row in tensor.addresses for address in row] == [
        owners[0],
        owners[0],
        owners[1],
        owners[2],
    ]


def test_blocks_go_where_slices_says(toy_host):
    host = toy_host(*SLICES)
    array = np.arange(12, dtype=np.int32).reshape(4, 3)
    tensor = host.tensor("a", array, "i32", (2, 2), slices=[2, 0, 0, 1])
    regions = {region.owner: region.node_id for region in host.engine.topology.address_map.regions}
    homes = [regions[address >> 38] for row in tensor.addresses for address in row]
    assert homes == [f"sip0.cube0.hbm{number}" for number in (2, 0, 0, 1)]
    np.testing.assert_array_equal(host.read(tensor), array)


@pytest.mark.parametrize("slices", [[0], [0, 3], [0, -1], []])
def test_wrong_slices_are_refused(toy_host, slices):
    with pytest.raises(KernelError) as caught:
        toy_host(*SLICES).empty("a", (4, 4), "f16", (2, 1), slices=slices)
    assert str(caught.value) == f"tensor a: got slices {slices}, needs a number from 0 to 2 for each of 2 blocks"


def test_tensors_in_lists_reach_the_kernel_as_references(toy_host):
    host, seen = toy_host(), []
    tensors = [host.tensor(name, np.full((2, 2), number, np.int32), "i32") for number, name in enumerate("ab")]
    host.launch(lambda tl, many, n: seen.append([int(tl.load(each[0, 0])) for each in many] + [n]), tensors, 7)
    assert seen == [[0, 1, 7]]


def test_one_dimension_is_one_row(toy_host):
    host = toy_host()
    array = np.arange(11, dtype=np.float32)
    np.testing.assert_array_equal(host.read(host.tensor("v", array, "f32", (1, 4))), array)


def test_replicas_are_on_the_chip_as_many_tensors(toy_host):
    array, homes = np.arange(12, dtype=np.int32).reshape(4, 3), [[0, 1], [2, 0], [2, 2]]
    host, other = toy_host(*SLICES), toy_host(*SLICES)
    replicas = host.replicas("a", array, "i32", (2, 1), homes)
    assert replicas == [other.tensor("a", array, "i32", (2, 1), home) for home in homes]
    assert (host.write_ps, host.engine.clock.now_ps) == (other.write_ps, other.engine.clock.now_ps)
    for replica in replicas:
        np.testing.assert_array_equal(host.read(replica), array)


def test_replicas_share_one_copy_of_the_data_until_one_is_written(toy_host):
    array = np.arange(12, dtype=np.int32).reshape(4, 3)
    host = toy_host(*SLICES)
    first, second = host.replicas("a", array, "i32", slices=[[0], [1]])
    assert np.shares_memory(host.read(first), host.read(second))
    array[:] = 0
    host.write(first, array + 100)
    np.testing.assert_array_equal(host.read(first), np.full((4, 3), 100))
    np.testing.assert_array_equal(host.read(second), np.arange(12).reshape(4, 3))


def test_replicas_need_a_place_each(toy_host):
    with pytest.raises(KernelError) as caught:
        toy_host(*SLICES).replicas("a", np.zeros((4, 4), np.float16), "f16")
    assert str(caught.value) == "replicas of a: got no slices, needs the memories of the blocks of each replica"


def test_a_write_copies_the_array(toy_host):
    host = toy_host()
    array = np.zeros((4, 4), np.int32)
    tensor = host.tensor("a", array, "i32")
    array[:] = 7
    assert not host.read(tensor).any()


def test_tensors_share_an_array_that_nobody_can_change(toy_host):
    host = toy_host()
    array = np.full((4, 4), 7, np.int32)
    view = array[:]
    view.setflags(write=False)  # *array* can still change
    copied = host.tensor("a", view, "i32")
    array.setflags(write=False)
    first, second = (host.tensor(name, array, "i32") for name in "bc")
    assert not np.shares_memory(host.read(copied), array)
    assert np.shares_memory(host.read(first), array)
    host.write(first, array + 100)
    np.testing.assert_array_equal(host.read(first), np.full((4, 4), 107))
    np.testing.assert_array_equal(host.read(second), np.full((4, 4), 7))


def test_an_array_in_column_order_arrives_as_it_is(toy_host):
    host = toy_host()
    array = np.asfortranarray(np.arange(12, dtype=np.int32).reshape(3, 4))
    np.testing.assert_array_equal(host.read(host.tensor("a", array, "i32")), array)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda host: host.empty("a", (0, 4), "f16"), "tensor a: got shape (0, 4), needs positive sizes, at least one"),
        (
            lambda host: host.empty("a", (2, 2, 2), "f16", shard="row").ref.shard(0),
            ("a (2 x 2 x 2 of 2 x 2 x 2): got shard of 3 dimensions, needs one or two; "
            "index the whole tensor, whose blocks a load may cross"),
        ),
        (lambda host: host.empty("a", (), "f16"), "tensor a: got shape (), needs positive sizes, at least one"),
        (
            lambda host: host.empty("a", (4, 4), "f16", (5, 1)),
            "tensor a: got 5 x 1 blocks of 4 x 4, needs 1 up to one per row, column",
        ),
        (
            lambda host: host.empty("a", (4, 4), "f16", (1, 0)),
            "tensor a: got 1 x 0 blocks of 4 x 4, needs 1 up to one per row, column",
        ),
        (
            lambda host: host.tensor("a", np.zeros((4, 4)), "f16"),
            "write of a: got float64 of shape (4, 4), needs f16 of shape (4, 4)",
        ),
        (
            lambda host: host.write(host.empty("a", (4, 4), "f16"), np.zeros((4, 5), np.float16)),
            "write of a: got float16 of shape (4, 5), needs f16 of shape (4, 4)",
        ),
        (lambda host: host.launch(lambda tl: None, pes=[1]), "launch: got PE 1, needs 0 to 0"),
        (lambda host: host.launch(lambda tl: None, pes=[-1]), "launch: got PE -1, needs 0 to 0"),
        (lambda host: host.launch(lambda tl: None, pes=[0, 0]), "launch: got PEs [0, 0], needs each at most once"),
        (lambda host: host.launch(lambda tl: None, pes=[]), "launch: got no PEs, needs at least one"),
        *(
            (
                lambda host, pes=pes: host.launch(lambda tl: None, pes=pes),
                f"launch: got pes={pes!r}, needs a list of PE numbers, 0 to 0",
            )
            for pes in (("nope",), "nope", "sip0.cube0.pe0", [0.0], [None], 1.5)
        ),
    ],
)  # fmt: skip
def test_wrong_calls_of_the_host_are_refused(toy_host, call, message):
    with pytest.raises(KernelError) as caught:
        call(toy_host())
    assert str(caught.value) == message


def test_data_of_another_type_of_the_same_size_is_refused(toy_host):
    with pytest.raises(KernelError) as caught:
        toy_host().tensor("a", np.zeros((4, 4), np.int32), "f32")
    assert str(caught.value) == "write of a: got int32 of shape (4, 4), needs f32 of shape (4, 4)"


def test_a_full_slice_says_how_much_is_left(toy_host):
    host = toy_host()
    host.empty("a", (1000, 1024), "i8")
    with pytest.raises(OutOfMemoryError) as caught:
        host.empty("b", (100, 1024), "i8")
    assert str(caught.value) == (
        "tensor b in sip0.cube0.hbm0: got a request for 102400 bytes, needs at most 24576 in one piece "
        "(24576 of 1048576 are free, a holds 1024000); use smaller tensors or a larger memory"
    )


def multiply(tl, a, c):
    tl.composite("gemm", a, a, out=c, tile=(16, 16, 16))


def copy(tl, a, c):
    tl.store(c, tl.load(a))


def test_pass_two_computes_a_launch(toy_host, writer):
    host = toy_host(writer=writer)
    array = np.random.default_rng(1).standard_normal((40, 40)).astype(np.float32)
    a, c = host.tensor("a", array, "f32"), host.empty("c", (40, 40), "f32")
    host.launch(multiply, a, c)
    memory = Executor(host.engine.close_log(), host.engine.initial_memory, "tile").run()
    np.testing.assert_allclose(read_tensor(memory, c), array.astype(np.float64) @ array, rtol=1e-4, atol=1e-4)


def test_a_write_after_the_first_launch_is_a_record_that_replay_follows(toy_host, writer):
    host = toy_host(writer=writer)
    first = np.arange(64, dtype=np.float32).reshape(8, 8)
    a, b, c = host.tensor("a", first, "f32", (2, 2)), host.empty("b", (4, 4), "f32"), host.empty("c", (4, 4), "f32")
    host.launch(lambda tl, a, b: copy(tl, a[0:4, 0:4], b), a, b)
    host.write(a, first + 100)
    host.launch(lambda tl, a, c: copy(tl, a[0:4, 0:4], c), a, c)

    assert host.engine.initial_memory is not None
    log = host.engine.close_log()
    records = [record for record in log.records() if record.name == "host_write"]
    assert len(records) == 4  # one a block
    assert {(record.component, record.line) for record in records} == {("host", "host")}
    end = host.launches[0].end_ps
    assert {(r.t_ready_ps, r.t_start_ps, r.t_end_ps, r.t_out_ps) for r in records} == {(end, end, end, end)}
    memory = Executor(log, host.engine.initial_memory, "tile").run()
    np.testing.assert_array_equal(read_tensor(memory, b), first[0:4, 0:4])
    np.testing.assert_array_equal(read_tensor(memory, c), first[0:4, 0:4] + 100)
    np.testing.assert_array_equal(read_tensor(memory, a), first + 100)


def test_a_write_before_the_first_launch_is_no_record(toy_host, writer):
    host = toy_host(writer=writer)
    a = host.tensor("a", np.zeros((4, 4), np.float32), "f32")
    host.write(a, np.ones((4, 4), np.float32))
    host.launch(lambda tl: None)
    assert host.engine.close_log().n_ops == 0


def test_initial_memory_is_that_of_the_first_launch(toy_host):
    host = toy_host()
    a = host.tensor("a", np.zeros((4, 4), np.float32), "f32")
    host.launch(lambda tl: None)
    host.write(a, np.ones((4, 4), np.float32))
    assert not read_tensor(host.engine.initial_memory, a).any()
    assert host.read(a).all()


def test_a_read_of_pending_bytes_is_deferred_until_pass_two(toy_host, writer):
    host = toy_host(writer=writer)
    array = np.eye(16, dtype=np.float32) * 3
    a, c = host.tensor("a", array, "f32"), host.empty("c", (16, 16), "f32")
    host.launch(multiply, a, c)
    deferred = host.read(c)
    assert isinstance(deferred, DeferredRead)
    with pytest.raises(KernelError) as caught:
        np.asarray(deferred)
    assert str(caught.value) == (
        f"composite gemm of test_host.py:{multiply.__code__.co_firstlineno + 1}: got a host read of c of its pending "
        "result, needs a value that exists while the kernel runs; results of compute ops are known only after the run, "
        "or where a kernel looks at them in a run with an op log"
    )
    memory = Executor(host.engine.close_log(), host.engine.initial_memory, "tile").run()
    np.testing.assert_array_equal(deferred.resolve(memory), array @ array)


def test_a_host_write_makes_pending_bytes_concrete(toy_host):
    host = toy_host()
    a, c = (host.tensor(name, np.zeros((16, 16), np.float32), "f32") for name in "ac")
    host.launch(multiply, a, c)
    host.write(c, np.ones((16, 16), np.float32))
    assert host.read(c).all()


def test_the_chip_is_counted(toy_host):
    host = toy_host(*SLICES, ("pe_layout: {count: 1}", "pe_layout: {count: 5}"))
    assert (host.num_pes, host.num_slices) == (5, 3)
