"""`tl.load_async`: a load that returns at issue, whatever `issue` of PE_CPU is. Times by hand.

Numbers of the round chip in picoseconds, as in test_scoreboard.py: 3000 from a call to the submission queue, 4000 to
take a command, 44240 to read 512 bytes.
"""

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import read_tensor
from kb_messages import CommandSubmitted, KernelError

SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)
READ = 44240
F16 = (16, 16, "f16")


def submitted(run):
    """When each command entered the submission queue."""
    return [event.t_ps for event in run.traced(CommandSubmitted)]


def test_two_loads_are_issued_one_after_the_other(simulate):
    def kernel(tl, a, b):
        tl.load_async(a)
        tl.load_async(b)

    run = simulate(kernel, F16, F16)
    assert submitted(run) == [3000, 6000]
    assert run.times(0, 0) == [(7000, 7000, 7000 + READ, 7000 + READ)]
    assert run.times(1, 0) == [(11000, 7000 + READ, 7000 + 2 * READ, 7000 + 2 * READ)]
    assert run.end_ps == 7000 + 2 * READ


@pytest.mark.parametrize(
    "use",
    [
        lambda tl, x, y, c: tl.dot(x, y),
        lambda tl, x, y, c: tl.dot(y.T, x),
        lambda tl, x, y, c: tl.wait(x + y),
        lambda tl, x, y, c: tl.store(c, y),
        lambda tl, x, y, c: (tl.wait(y), tl.wait(tl.exp(x))),
        lambda tl, x, y, c: (y[0, 0], tl.wait(tl.exp(x))),
        lambda tl, x, y, c: (tl.materialize(y), tl.wait(tl.exp(x))),
        lambda tl, x, y, c: tl.composite("gemm", x, y, out=c),
        lambda tl, x, y, c: tl.composite("gemm", c, c, epilogue=(tl.residual(y),)),
    ],
    ids=["dot", "transposed", "math", "store", "wait", "look", "materialize", "composite", "epilogue"],
)
def test_the_first_use_waits_for_the_loads(simulate, use):
    def kernel(tl, a, b, c):
        x, y = tl.load_async(a), tl.load_async(b)
        use(tl, x, y, c)

    # The use is called at 6000, and y is there at 7000 + 2 * 44240. Its command then takes 3000 to the queue.
    assert submitted(simulate(kernel, F16, F16, F16))[2] == 7000 + 2 * READ + 3000


def test_a_use_of_the_first_load_does_not_wait_for_the_second(simulate):
    def kernel(tl, a, b):
        x = tl.load_async(a)
        tl.load_async(b)
        tl.wait(tl.exp(x))

    run = simulate(kernel, F16, F16)
    assert submitted(run)[2] == 7000 + READ + 3000
    assert run.times(2, 0)[0][0] == 7000 + READ + 3000 + 4000


def test_a_masked_load_runs_ahead_too(simulate):
    def kernel(tl, a, b):
        x = tl.load_async(a[8:24, :], mask=(tl.arange(8, 24) < 16)[:, None], other=3.0)
        tl.load(b)
        assert (x[7, 0], x[8, 0]) == (0.0, 3.0)

    assert submitted(simulate(kernel, F16, F16)) == [3000, 6000]


def test_with_a_scoreboard_it_is_a_load(simulate):
    def kernel(tl, a, b, c, load):
        tl.store(c, tl.dot(load(tl)(a), load(tl)(b)))

    shapes = F16, F16, (16, 16, "f32")
    plain, ahead = (
        simulate(lambda tl, a, b, c, load=load: kernel(tl, a, b, c, load), *shapes, changes=SCOREBOARD)
        for load in (lambda tl: tl.load, lambda tl: tl.load_async)
    )
    assert [event.t_ps for event in plain.trace if hasattr(event, "t_ps")] == [
        event.t_ps for event in ahead.trace if hasattr(event, "t_ps")
    ]


def test_freeing_what_is_on_its_way_is_refused(chip_host):
    host = chip_host()
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    with pytest.raises(KernelError, match=r"tl.free of a result on its way, needs a finished one; call tl.wait first"):
        host.launch(lambda tl, a: tl.free(tl.load_async(a)), a, pes=[0])


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda tl, a: tl.load_async(3), "tl.load_async of an int"),
        (lambda tl, a: tl.load_async(a.T), "tl.load_async it as it is stored"),
    ],
)
def test_the_message_names_the_call(chip_host, misuse, text):
    host = chip_host()
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    with pytest.raises(KernelError, match=text):
        host.launch(misuse, a, pes=[0])


def row_products(tl, a, b, c):
    """The next rows are read while those before are multiplied."""
    ahead = tl.load_async(a[0:8, :])
    weights = tl.load_async(b)
    for row in range(0, 32, 8):
        rows, ahead = ahead, tl.load_async(a[(row + 8) % 32 : (row + 8) % 32 + 8, :])
        product = tl.dot(rows, weights)
        tl.store(c[row : row + 8, :], product)
        tl.free(rows)
        tl.free(product)


@pytest.mark.parametrize("changes", [(), SCOREBOARD], ids=["blocking", "scoreboard"])
@pytest.mark.parametrize("mode", ["fused", "tile"])
def test_the_data_are_those_of_numpy(chip_host, changes, mode):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((32, 24), np.float32), rng.standard_normal((24, 16), np.float32)
    writer = MemoryLogWriter()
    host = chip_host(*changes, writer=writer)
    out = host.empty("c", (32, 16), "f32")
    host.launch(row_products, host.tensor("a", a, "f32"), host.tensor("b", b, "f32"), out, pes=[0])
    log = host.engine.close_log()
    found = read_tensor(Executor(log, host.engine.initial_memory, mode).run(), out)
    assert np.abs(found - a.astype(np.float64) @ b).max() < 1e-4


@pytest.mark.parametrize(
    ("n", "order"), [(0, "lulululu"), (1, "llululuu"), (2, "llluluuu"), (3, "lllluuuu"), (9, "lllluuuu")]
)
def test_ahead_issues_loads_before_the_use_of_earlier_ones(simulate, n, order):
    def kernel(tl, a):
        for x in tl.ahead((tl.load_async(a[row : row + 1, :]) for row in range(4)), n):
            tl.wait(tl.exp(x))

    events = simulate(kernel, (4, 256, "f16")).traced(CommandSubmitted)
    assert "".join("u" if "vector" in event.name else "l" for event in events) == order


def test_an_item_that_was_handed_out_is_not_kept(simulate):
    # 896 KiB of TCM are the kernel's. Rows have 240 KiB: with n = 1 the one in use, its follower, and one on its way.
    def kernel(tl, a, n):
        for x in tl.ahead((tl.load_async(a[row : row + 1, :]) for row in range(4)), n):
            tl.wait(x)

    simulate(lambda tl, a: kernel(tl, a, 1), (4, 122880, "f16"))
    with pytest.raises(KernelError, match="fewer values at a time"):
        simulate(lambda tl, a: kernel(tl, a, 2), (4, 122880, "f16"))


def test_ahead_of_no_number_and_of_no_loop_is_refused(simulate):
    with pytest.raises(
        KernelError, match=r"test_load_async.py:\d+: got tl.ahead of -1, needs an integer of at least 0"
    ):
        simulate(lambda tl, a: tl.ahead([], -1), F16)
    with pytest.raises(KernelError, match=r"got tl.ahead of an int, needs an iterable"):
        simulate(lambda tl, a: tl.ahead(3), F16)


def test_the_line_of_a_load_ahead_is_the_kernels(simulate):
    def kernel(tl, a):
        for x in tl.ahead(tl.load_async(a[row : row + 1, :]) for row in range(9)):
            tl.wait(x)

    with pytest.raises(KernelError, match=r"test_load_async.py:\d+: .*got an empty slice"):
        simulate(kernel, (4, 256, "f16"))
