"""Atomics: one request that reads and writes at the memory. Times by hand, data by numpy.

Numbers of the round chip in picoseconds, as in test_scoreboard.py: 3000 from a call to the submission queue, 4000 to
take a command. Set-up 2000, xbar 1000 each way, a byte 10 on a link (two links, cut-through) and 20 at the HBM, whose
latency is 30000.
"""

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter, sanitize
from kb_engine import read_tensor
from kb_messages import CommandSubmitted, KernelError

SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)
DECOUPLED = (("issue_ns: 3}", "issue_ns: 3, issue: decoupled}"),)
WAYS = pytest.mark.parametrize("changes", [(), SCOREBOARD, DECOUPLED], ids=["blocking", "scoreboard", "decoupled"])
F32 = (16, 16, "f32")
TWO_PES = ("pe_layout: {count: 1}", "pe_layout: {count: 2}")
RNG = np.random.default_rng(5)


def launch(chip_host, kernel, *arrays, changes=(), pes=(0,), dtypes=()):
    """The tensors after *kernel*, in both modes the same, and the log."""
    writer = MemoryLogWriter()
    host = chip_host(*changes, writer=writer)
    given = [host.tensor(f"t{n}", each, str(dtypes[n] if dtypes else "i32")) for n, each in enumerate(arrays)]
    host.launch(kernel, *given, pes=list(pes))
    log = host.engine.close_log()
    found = []
    for mode in ("tile", "fused"):
        after = Executor(log, host.engine.initial_memory, mode, fuse_from=2).run()
        found.append([np.array(read_tensor(after, each)) for each in given])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    return found[0], log


def test_an_atomic_takes_a_read_and_a_write_at_the_memory(simulate):
    def kernel(tl, x, y):
        value = tl.load(x)
        tl.atomic_add(y, value)
        tl.load(y)

    run = simulate(kernel, F32, F32)
    # A read of 1024 bytes: 2000 + 1000 + 30000 + 20 x 1024 + 1000. An atomic: the bytes are at the memory 2000 + 1000 +
    # 10 x 1024 after its begin. There a read of 30000 + 20480, then a commit of 30000; the channel is free in time for
    # the write. Then 1000 back.
    read = 54480
    start = 7000 + read + 7000
    end = start + 2000 + 1000 + 10240 + 30000 + 20480 + 30000 + 1000
    assert run.times(1, 0) == [(start, start, end, end)]
    assert [record.name for record in run.records.values()] == ["dma_read", "dma_write", "dma_read"]
    record = run.records[1, 0, 0]
    assert (record.kind.name, record.params) == ("MATH", '{"op":"add"}')
    assert [(each.role.name, each.space.name) for each in record.operands] == [
        ("IN", "HBM"), ("IN", "TCM"), ("OUT", "HBM"),
    ]  # fmt: skip
    # The next command begins when the atomic is done.
    assert run.times(2, 0)[0][0] == end + 7000


def test_the_bytes_before_are_read_if_the_kernel_keeps_them(simulate):
    def kernel(tl, y, keeps):
        old = tl.atomic_add(y, 1.0)
        if not keeps:
            del old
        tl.load(y)

    kept = simulate(lambda tl, y: kernel(tl, y, True), F32)
    dropped = simulate(lambda tl, y: kernel(tl, y, False), F32)
    assert [record.name for record in kept.records.values()] == ["dma_read", "dma_write", "dma_read"]
    assert [record.name for record in dropped.records.values()] == ["dma_write", "dma_read"]


INTEGERS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "xchg": lambda old, new: np.broadcast_to(new, old.shape),
}  # fmt: skip


@WAYS
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_those_of_numpy_and_stay_known(chip_host, name, changes):
    x, y = (RNG.integers(-50, 50, (4, 6)).astype(np.int32) for _ in range(2))
    seen = []

    def kernel(tl, x, y, out):
        atomic = getattr(tl, f"atomic_{name}")
        value = tl.load(x)
        seen.append(np.array(atomic(y, value)))
        old = atomic(y, 7)
        seen.append(np.array(old))
        tl.store(out, old)
        seen.append(np.array(tl.load(y)))

    (_, after, out), log = launch(chip_host, kernel, x, y, np.zeros_like(x), changes=changes)
    first = INTEGERS[name](y, x)
    second = INTEGERS[name](first, np.int32(7))
    for got, expected in zip([*seen, after, out], [y, first, second, second, first], strict=True):
        np.testing.assert_array_equal(got, expected)
    assert sanitize(log) == []


def test_cas_exchanges_what_is_equal(chip_host):
    x = np.array([[1, 2, 1, 3]], np.int32)

    def kernel(tl, x):
        assert tl.atomic_cas(x, 1, 9)[0, 2] == 1
        assert [tl.load(x)[0, n] for n in range(4)] == [9, 2, 9, 3]

    (after,), _ = launch(chip_host, kernel, x)
    assert after.tolist() == [[9, 2, 9, 3]]


def test_integers_wrap(chip_host):
    (after,), _ = launch(chip_host, lambda tl, x: tl.atomic_add(x, 2), np.array([[2**31 - 1]], np.int32))
    assert after.tolist() == [[-(2**31) + 1]]


def adders(tl, x, y):
    """Every program adds its rows to y, and looks at nothing."""
    for row in range(tl.program_id(), x.shape[0], tl.num_programs()):
        tl.atomic_add(y, tl.load(x[row : row + 1, :]))


@WAYS
def test_sums_of_floats_by_several_programs(chip_host, changes):
    x, y = RNG.standard_normal((12, 8)).astype(np.float32), np.zeros((1, 8), np.float32)
    (_, after), log = launch(chip_host, adders, x, y, changes=(*changes, TWO_PES), pes=(0, 1), dtypes=("f32", "f32"))
    np.testing.assert_allclose(after, x.astype(float).sum(axis=0, keepdims=True), atol=1e-5)
    assert sanitize(log) == []


def test_a_load_beside_atomics_of_another_pe_is_a_race(chip_host):
    def kernel(tl, x, y):
        if tl.program_id():
            tl.load(y)
        else:
            tl.atomic_add(y, 1)

    _, log = launch(chip_host, kernel, *[np.zeros((1, 4), np.int32)] * 2, changes=(TWO_PES,), pes=(0, 1))
    assert [finding.hazard.is_race for finding in sanitize(log)] == [True]


@WAYS
def test_a_lock_and_a_counter_work(chip_host, changes):
    def kernel(tl, lock, counter, taken):
        for _ in range(3):
            while tl.atomic_cas(lock, 0, 1)[0, 0]:
                pass
            ticket = tl.atomic_add(counter, 1)[0, 0]
            tl.atomic_xchg(taken[0:1, ticket : ticket + 1], tl.program_id() + 1)
            tl.atomic_xchg(lock, 0)

    zero = np.zeros((1, 1), np.int32)
    (lock, counter, taken), log = launch(
        chip_host, kernel, zero, zero, np.zeros((1, 6), np.int32), changes=(*changes, TWO_PES), pes=(0, 1)
    )
    assert (lock[0, 0], counter[0, 0]) == (0, 6)
    assert sorted(taken[0].tolist()) == [1, 1, 1, 2, 2, 2]
    assert sanitize(log) == []


def test_a_pending_sum_can_be_looked_at(chip_host):
    x = np.full((1, 4), 0.5, np.float32)

    def kernel(tl, x, seen):
        tl.atomic_add(x, 0.25)
        old = tl.atomic_add(x, 1.0)
        seen.append(float(old[0, 0]))

    seen = []
    (after,), _ = launch(chip_host, lambda tl, x: kernel(tl, x, seen), x, dtypes=("f32",))
    assert seen == [0.75]
    assert after.tolist() == [[1.75] * 4]


def test_relaxed_atomics_do_not_wait_and_others_do(simulate):
    def kernel(tl, x, y, sem):
        kept = tl.load(x)
        tl.atomic_add(y, 1.0, sem=sem)
        tl.load(x)
        del kept

    found = {}
    for sem in ("relaxed", "acquire", "release", "acq_rel"):
        run = simulate(lambda tl, x, y, sem=sem: kernel(tl, x, y, sem), F32, F32, changes=SCOREBOARD)
        found[sem] = [event.t_ps for event in run.traced(CommandSubmitted)], run.times(1, 0)[0][2]
    read = 7000 + 54480
    assert found["relaxed"][0] == [3000, 6000, 9000]
    assert found["release"][0] == [3000, read + 3000, read + 6000]
    assert found["acquire"][0] == [3000, 6000, found["acquire"][1] + 3000]
    assert found["acq_rel"][0] == [3000, read + 3000, found["acq_rel"][1] + 3000]


def test_dots_and_atomics_are_issued_in_the_order_of_their_calls(chip_host):
    x = RNG.integers(-3, 4, (8, 8)).astype(np.int8)

    def kernel(tl, x, y):
        a = tl.load(x)
        acc = tl.dot(a, a, 0)
        acc = tl.dot(a, a, acc)
        tl.atomic_add(y, 1)
        acc = tl.dot(a, a, acc)
        tl.atomic_add(y, acc)

    (_, after), log = launch(chip_host, kernel, x, np.zeros((8, 8), np.int32), dtypes=("i8", "i32"))
    np.testing.assert_array_equal(after, 3 * (x.astype(int) @ x) + 1)
    names = [record.name for record in sorted(log.records(), key=lambda each: each.command_seq)]
    assert names == ["dma_read", "fetch", "gemm", "fetch", "gemm", "dma_write", "fetch", "gemm", "store", "dma_write"]


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda tl, x, y: tl.atomic_add(y, 1, sem="weak"), "tl.atomic_add with sem='weak', needs one of 'acq_rel'"),
        (lambda tl, x, y: tl.atomic_add(3, 1), "tl.atomic_add of an int"),
        (lambda tl, x, y: tl.atomic_add(y, "1"), "tl.atomic_add of a str, needs a number or a value in TCM"),
        (lambda tl, x, y: tl.atomic_add(y, tl.load(x[0:1, :])), "tl.atomic_add of 1 x 4 i32, needs 2 x 4 i32, as the"),
        (lambda tl, x, y: tl.atomic_add(y, 1, mask=tl.arange(3) < 2), "a mask of 3 for 2 x 4 of x"),
        (lambda tl, x, y: tl.atomic_add(y[:, tl.arange(4) + 1], 1), "index 4 in dimension 1 of x"),
        (lambda tl, x, y: tl.atomic_xchg(y, 1.5), "other=1.5 for i32"),
    ],
)
def test_misuse_is_refused(chip_host, misuse, text):
    host = chip_host()
    x = host.tensor("x", np.zeros((2, 4), np.int32), "i32")
    with pytest.raises(KernelError, match=text):
        host.launch(lambda tl, x: misuse(tl, x, x), x, pes=[0])


def test_bits_of_floats_are_refused(chip_host):
    host = chip_host()
    x = host.tensor("x", np.zeros((2, 4), np.float32), "f32")
    with pytest.raises(KernelError, match="atomic bit_and: got a target of f32, needs integers"):
        host.launch(lambda tl, x: tl.atomic_and(x, 1), x, pes=[0])


def test_a_value_that_is_freed_behind_an_atomic_was_an_operand_of_it(chip_host):
    def kernel(tl, x, y, out):
        value = tl.load(x)
        old = tl.atomic_add(y, value)
        tl.free(value)  # its TCM is the first that is free for the bytes before
        tl.store(out, old)

    x, y = (RNG.integers(-99, 99, (16, 16), dtype=np.int32) for _ in range(2))
    (_, total, before), _ = launch(chip_host, kernel, x, y, np.zeros((16, 16), np.int32))
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(before, y)
