"""`tl.dot` with an accumulator: the sum stays in registers between dots. Times by hand, data by numpy.

Numbers of the round chip in picoseconds, as in test_scoreboard.py: 3000 from a call to the submission queue, 4000 to
take a command. FETCH or STORE of n bytes 1000 + 5 n. A GEMM of 16 x 16 x 16 takes 16 + 30 cycles of 1000.
"""

import numpy as np
import pytest
from components_changes import SHALLOW

from kb_dataexec import Executor, MemoryLogWriter, sanitize
from kb_engine import read_tensor
from kb_messages import KernelError

SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)
F16, F32 = (16, 16, "f16"), (16, 16, "f32")
GEMM, FETCH, DRAIN = 46000, 1000 + 5 * 1024, 1000 + 5 * 1024
RNG = np.random.default_rng(11)
A = RNG.standard_normal((32, 64)).astype(np.float16)
B = RNG.standard_normal((64, 32)).astype(np.float16)
PRODUCT = A.astype(np.float64) @ B.astype(np.float64)


def names(run):
    """The stages of each command, in command order."""
    return [[run.records[key].name for key in sorted(run.records) if key[0] == n] for n in range(len(run.plans))]


def data(chip_host, kernel, *arguments, changes=(), shape=(32, 32), modes=("tile", "fused"), log_too=False):
    """What *kernel* leaves in its last argument, of f32; the same in all modes up to the order of additions."""
    writer = MemoryLogWriter()
    host = chip_host(*changes, writer=writer)
    given = [host.tensor(f"t{n}", each, "i8" if each.dtype == np.int8 else "f16") for n, each in enumerate(arguments)]
    out = host.empty("out", shape, "i32" if arguments[0].dtype == np.int8 else "f32")
    host.launch(kernel, *given, out, pes=[0])
    log = host.engine.close_log()
    found = [
        np.array(read_tensor(Executor(log, host.engine.initial_memory, mode, fuse_from=2).run(), out)) for mode in modes
    ]
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], rtol=1e-5, atol=1e-5)
    assert sanitize(log) == []
    return (found[0], log) if log_too else found[0]


def chain(tl, x, y, c):
    a, b = tl.load(x), tl.load(y)
    acc = 0
    for _ in range(3):
        acc = tl.dot(a, b, acc)
    tl.store(c, acc)


def test_a_chain_has_no_fetch_and_no_store_of_its_sum(simulate):
    run = simulate(chain, F16, F16, F32)
    assert names(run)[2:] == [["fetch", "gemm"]] * 3 + [["store"], ["dma_write"]]
    # The second load ends at 7000 + 44240 + 7000 + 44240. A dot: 3000 to the queue, 4000 to be taken, then FETCH of two
    # tiles of 512 bytes and GEMM. The store's STORE of 1024 bytes is a command of its own.
    start = 2 * (7000 + 44240)
    for number in (2, 3, 4):
        fetched = start + 7000 + FETCH
        assert run.times(number, 0) == [
            (start + 7000, start + 7000, fetched, fetched),
            (fetched, fetched, fetched + GEMM, fetched + GEMM),
        ]
        start = fetched + GEMM
    drained = start + 7000 + DRAIN
    assert run.times(5, 0) == [(start + 7000, start + 7000, drained, drained)]
    assert run.times(6, 0)[0][0] == drained + 7000


def test_with_a_scoreboard_the_array_goes_on_without_a_gap(simulate):
    run = simulate(chain, F16, F16, F32, changes=SCOREBOARD)
    # The second load ends at 95480, and the first dot enters then. The others wait for nothing: they are called at
    # 95480 and 98480, and are in the queue 3000 later. FETCHes follow each other, and so do GEMMs.
    first = 95480 + 4000
    fetches = [run.times(number, 0)[0] for number in (2, 3, 4)]
    gemms = [run.times(number, 0)[1] for number in (2, 3, 4)]
    assert [each[1:3] for each in fetches] == [(first + n * FETCH, first + (n + 1) * FETCH) for n in range(3)]
    assert [each[1:3] for each in gemms] == [
        (first + FETCH + n * GEMM, first + FETCH + (n + 1) * GEMM) for n in range(3)
    ]
    # STORE waits for the last dot.
    assert run.times(5, 0)[0][1] == first + FETCH + 3 * GEMM + 4000


def test_a_sum_in_tcm_is_fetched_once(simulate):
    def kernel(tl, x, y, c):
        a, b = tl.load(x), tl.load(y)
        acc = tl.dot(a, b)
        for _ in range(2):
            acc = tl.dot(a, b, acc)
        tl.store(c, acc)

    run = simulate(kernel, F16, F16, F32)
    assert names(run)[2:] == [
        ["fetch", "gemm", "store"],
        ["fetch", "gemm"],
        ["fetch", "gemm"],
        ["store"],
        ["dma_write"],
    ]
    assert [run.plans[n].n_stages for n in (2, 3, 4)] == [3, 2, 2]
    fetches = [run.times(n, 0)[0] for n in (2, 3, 4)]
    assert [each[2] - each[1] for each in fetches] == [1000 + 5 * 1024, 1000 + 5 * 2048, 1000 + 5 * 1024]


def loop(tl, a, b, c):
    acc = 0
    for k in range(0, 64, 16):
        acc = tl.dot(tl.load(a[:, k : k + 16]), tl.load(b[k : k + 16]), acc)
    tl.store(c, acc)


@pytest.mark.parametrize("changes", [(), SCOREBOARD, SHALLOW, SCOREBOARD + SHALLOW], ids=["", "ahead", "1", "ahead 1"])
def test_a_loop_over_k_is_the_product(chip_host, changes):
    np.testing.assert_allclose(data(chip_host, loop, A, B, changes=changes), PRODUCT, atol=1e-4)


def test_integers_are_summed_in_i32(chip_host):
    a, b = (RNG.integers(-128, 128, shape, np.int8) for shape in ((32, 64), (64, 32)))
    np.testing.assert_array_equal(data(chip_host, loop, a, b), a.astype(np.int64) @ b)


@pytest.mark.parametrize("changes", [(), SCOREBOARD], ids=["blocking", "scoreboard"])
def test_a_sum_that_is_needed_later_is_kept(chip_host, changes):
    def kernel(tl, a, b, c):
        half = tl.dot(tl.load(a[:, :32]), tl.load(b[:32]), 0)
        whole = tl.dot(tl.load(a[:, 32:]), tl.load(b[32:]), half)
        tl.store(c, whole - half)

    found, log = data(chip_host, kernel, A, B, changes=changes, log_too=True)
    np.testing.assert_allclose(found, A[:, 32:].astype(float) @ B[32:], atol=1e-4)
    kinds = [record.name for record in log.records() if record.name in ("gemm", "store", "math")]
    assert kinds == ["gemm", "store", "gemm", "store", "math", "store"]


@pytest.mark.parametrize("frees", [False, True])
def test_an_old_sum_does_not_take_the_tcm_of_the_factors(chip_host, frees):
    def kernel(tl, a, b, c):
        old = tl.dot(tl.load(a[0:16, 0:32]), tl.load(b[0:32, 0:16]), 0)
        left, right = tl.load(a[0:16, 32:64]), tl.load(b[32:64, 0:16])  # as large as the sum
        new = tl.dot(left, right, old)
        if frees:
            tl.free(left)
        del left, right
        tl.store(c[0:16, 0:16], old)
        tl.store(c[16:32, 0:16], new)

    found = data(chip_host, kernel, A, B, shape=(32, 16))
    first = A[:16, :32].astype(float) @ B[:32, :16]
    np.testing.assert_allclose(found[:16], first, atol=1e-4)
    np.testing.assert_allclose(found[16:], PRODUCT[:16, :16], atol=1e-4)


def test_the_sum_before_may_be_a_factor_too(chip_host):
    def kernel(tl, a, b, c):
        acc = tl.dot(tl.load(a[:, :32]), tl.load(b[:32]), 0)
        acc = tl.dot(acc.to("f16"), tl.load(b[:32]), acc)
        acc = tl.dot(acc, acc, acc)
        tl.store(c, acc)

    first = A[:, :32].astype(float) @ B[:32]
    second = first + first.astype(np.float16).astype(float) @ B[:32]
    found = data(
        chip_host, kernel, A, B, changes=(("clock_ghz: 1.0}", "clock_ghz: 1.0, macs_per_cell: {f16: 1, f32: 1}}"),)
    )
    np.testing.assert_allclose(found, second + second @ second, rtol=1e-2, atol=2)


def test_several_sums_lie_side_by_side(chip_host):
    def kernel(tl, a, b, c):
        sums = [0, 0]
        for k in range(0, 64, 16):
            left = tl.load(a[:, k : k + 16])
            for n in range(2):
                sums[n] = tl.dot(left, tl.load(b[k : k + 16, 16 * n : 16 * n + 16]), sums[n])
        for n in range(2):
            tl.store(c[:, 16 * n : 16 * n + 16], sums[n])

    found, log = data(chip_host, kernel, A, B, log_too=True)
    np.testing.assert_allclose(found, PRODUCT, atol=1e-4)
    assert sum(record.name == "store" for record in log.records()) == 2


SMALL_FILE = (("memory: {space: reg, size: 64 KiB}", "memory: {space: reg, size: 12 KiB}"),)


@pytest.mark.parametrize("changes", [(), SCOREBOARD, SCOREBOARD + SHALLOW], ids=["blocking", "ahead", "ahead 1"])
def test_sums_make_room_for_what_needs_their_registers(chip_host, changes):
    def kernel(tl, a, b, c):
        acc = other = third = 0
        for k in range(0, 64, 16):
            left, right = tl.load(a[:, k : k + 16]), tl.load(b[k : k + 16])
            acc = tl.dot(left, right, acc)
            other = tl.dot(left * 0.5, right, other)
            third = tl.dot(left, right, third)
        tl.store(c, acc + other)
        tl.store(c, tl.load(c) + third)

    # Two sums of 4 KiB and the operands of a dot, 2 KiB, fit the 12 KiB, and a third sum does not.
    found, log = data(chip_host, kernel, A, B, changes=SMALL_FILE + changes, log_too=True)
    np.testing.assert_allclose(found, 2.5 * PRODUCT, atol=1e-3)
    assert sum(record.name == "store" and record.operands[1].dtype == "f32" for record in log.records()) > 4


def test_a_composite_beside_a_sum(chip_host):
    def kernel(tl, a, b, c):
        acc = 0
        for k in range(0, 64, 16):
            acc = tl.dot(tl.load(a[:, k : k + 16]), tl.load(b[k : k + 16]), acc)
            done = tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))
        tl.wait(done)
        tl.store(c, acc + tl.load(c))

    for changes in ((), SMALL_FILE, SCOREBOARD + SMALL_FILE):
        writer = MemoryLogWriter()
        host = chip_host(*changes, writer=writer)
        out = host.empty("out", (32, 32), "f32")
        host.launch(kernel, host.tensor("a", A, "f16"), host.tensor("b", B, "f16"), out, pes=[0])
        found = read_tensor(Executor(host.engine.close_log(), host.engine.initial_memory, "tile").run(), out)
        np.testing.assert_allclose(found, 2 * PRODUCT, atol=1e-3)


def test_a_deep_dot_comes_in_pieces_and_a_wide_one_is_stored(chip_host):
    def kernel(tl, a, b, c):
        left, right = tl.load(a), tl.load(b)
        tl.store(c, tl.dot(left, right, tl.dot(left, right)))

    # 32 x 32 x 64: operands of 8 KiB and a sum of 4 KiB.
    for size, stages in ((12, 1), (8, 2), (4, 1)):
        small = (("memory: {space: reg, size: 64 KiB}", f"memory: {{space: reg, size: {size} KiB}}"),)
        found, log = data(chip_host, kernel, A, B, changes=small, log_too=True)
        np.testing.assert_allclose(found, 2 * PRODUCT, atol=1e-3)
        last = max(record.command_seq for record in log.records() if record.name == "gemm")
        gemms = [record for record in log.records() if record.command_seq == last and record.name == "gemm"]
        assert (len(gemms) == stages) is (size > 4)


def test_the_kernel_may_look_at_a_sum_and_go_on(chip_host):
    def kernel(tl, a, b, c, seen):
        acc = 0
        for k in range(0, 64, 16):
            acc = tl.dot(tl.load(a[:, k : k + 16]), tl.load(b[k : k + 16]), acc)
            other = tl.dot(tl.load(a[:, :16]), tl.load(b[:16]), 0)
            seen.append(np.array(tl.materialize(acc)) - np.array(tl.materialize(other)))
        tl.store(c, acc)

    for changes in ((), SCOREBOARD):
        seen = []
        data(chip_host, lambda tl, a, b, c, seen=seen: kernel(tl, a, b, c, seen), A, B, changes=changes)
        x, y = A.astype(float), B.astype(float)
        for number, found in enumerate(seen):
            k = 16 * (number + 1)
            np.testing.assert_allclose(found, x[:, :k] @ y[:k] - x[:, :16] @ y[:16], atol=1e-3)


def test_a_sum_that_nobody_asks_for_is_drained_at_the_end(simulate):
    def kernel(tl, x, y):
        a, b = tl.load(x), tl.load(y)
        acc = tl.dot(a, b, 0)
        acc = tl.dot(a, b, acc)

    assert names(simulate(kernel, F16, F16))[2:] == [["fetch", "gemm"], ["fetch", "gemm"], ["store"]]


def test_a_freed_sum_gives_its_registers_to_the_next(simulate):
    def kernel(tl, x, y):
        a, b = tl.load(x), tl.load(y)
        for _ in range(3):
            acc = tl.dot(a, b, 0)
            acc = tl.dot(a, b, acc)
            tl.free(acc)

    run = simulate(kernel, F16, F16)
    assert names(run)[2:] == [["fetch", "gemm"]] * 6 + [["store"]]
    assert {run.records[n, 0, 1].operands[-1].offset for n in range(2, 8)} == {64 * 1024 - 1024}


def test_waiting_for_a_sum_waits_for_its_dot(simulate):
    def kernel(tl, x, y, z):
        a, b = tl.load(x), tl.load(y)
        acc = tl.dot(a, b, 0)
        acc = tl.dot(a, b, acc)
        tl.wait(acc)
        tl.load(z)

    run = simulate(kernel, F16, F16, F16, changes=SCOREBOARD)
    assert run.times(4, 0)[0][0] == run.times(3, 0)[1][2] + 7000


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda tl, a, b: tl.dot(a, b, 1.0), "tl.dot with acc = a float, needs a value in TCM, 16 x 16 of f32"),
        (lambda tl, a, b: tl.dot(a, b, "f16"), "tl.dot with acc = a str"),
        (lambda tl, a, b: tl.dot(a, b, a), r"tl.dot with acc of 16 x 16 f16, needs .*; acc.to\('f32'\) has that type"),
        (
            lambda tl, a, b: tl.dot(a, b, tl.dot(a, b)[0:8]),
            "tl.dot with acc of 8 x 16 f32, needs a value in TCM, 16 x 16",
        ),
        (lambda tl, a, b: tl.dot(a, b, 0, out_dtype="f16"), "tl.dot with acc and out_dtype=f16, needs f32, as acc has"),
    ],
)
def test_what_is_no_accumulator_is_refused(chip_host, misuse, text):
    host = chip_host()
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    with pytest.raises(KernelError, match=text):
        host.launch(lambda tl, a: misuse(tl, tl.load(a), tl.load(a)), a, pes=[0])


def test_a_freed_accumulator_is_refused(chip_host):
    def kernel(tl, x):
        a = tl.load(x)
        acc = tl.dot(a, a, 0)
        tl.free(acc)
        tl.dot(a, a, acc)

    host = chip_host()
    with pytest.raises(KernelError, match=r"an AccumulatorTensor after tl\.free"):
        host.launch(kernel, host.tensor("a", np.zeros((16, 16), np.float16), "f16"), pes=[0])
