"""PE_CPU with `issue: decoupled`: commands wait in the queues of their engines. Times by hand, data by numpy.

Numbers of the round chip in picoseconds, as in test_scoreboard.py: 3000 from a call to the engine's queue, 4000 to take
a command. A read or write of 512 bytes 44240, FETCH or STORE of it 3560, exp 64000.
"""

import numpy as np
import pytest
from components_changes import SHALLOW

from kb_dataexec import Executor, MemoryLogWriter, sanitize
from kb_engine import read_tensor
from kb_messages import CommandSubmitted

DECOUPLED = (("issue_ns: 3}", "issue_ns: 3, issue: decoupled}"),)
SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)
ONE = (("issue_ns: 3}", "issue_ns: 3, issue: decoupled, engine_queue_depth: 1}"),)
READ = 44240
MOVE, EXP = 3560, 64000
F16 = (16, 16, "f16")


def issued(*values):
    """Have a command issued for each of *values*: it is asked for its place, and nobody waits."""
    for value in values:
        assert value.matrix


def submitted(run):
    """When each command, in the order of the program, entered the submission queue, and what it waited for."""
    found = sorted(run.traced(CommandSubmitted), key=lambda event: event.command_seq)
    return [(event.t_ps, event.waits_ps) for event in found]


def test_a_load_passes_math_that_waits(simulate):
    def kernel(tl, a, b, c):
        x = tl.load(a)
        tl.store(c, tl.exp(x))
        tl.load(b)

    run = simulate(kernel, F16, F16, F16, changes=DECOUPLED)
    # exp waits for the first load until 51240, and the store for exp. The second load arrives at 12000.
    stored = 51240 + 4000 + MOVE + EXP + MOVE
    assert submitted(run) == [
        (3000, {}),
        (51240, {"operand": 51240 - 6000}),
        (stored, {"operand": stored - 9000}),
        (12000, {}),
    ]
    assert run.times(3, 0)[0] == (16000, 51240, 51240 + READ, 51240 + READ)
    # With a scoreboard the second load stands behind the store in PE_CPU.
    assert submitted(simulate(kernel, F16, F16, F16, changes=SCOREBOARD))[3][0] > stored


def test_commands_of_one_engine_keep_their_order(simulate):
    def kernel(tl, a):
        x = tl.load(a)
        y = tl.load(a)
        issued(tl.exp(y), tl.abs(x))

    run = simulate(kernel, F16, changes=DECOUPLED)
    # abs could start at 51240, when its operand is there, but exp stands before it until the second load ends.
    second = 51240 + READ
    assert submitted(run)[2:] == [
        (second, {"operand": second - 9000}),
        (second, {"engine_queue": second - 12000}),
    ]


def test_a_full_queue_holds_the_kernel_back(simulate):
    def kernel(tl, a, b):
        x = tl.load(a)
        issued(tl.exp(x), tl.abs(x))
        tl.load(b)

    run = simulate(kernel, F16, F16, changes=ONE)
    # exp waits in the only place of the compute queue until 51240. abs, which arrives at 9000, gets the place then, and
    # its operand is there. The kernel goes on at 51240 and calls the load.
    assert submitted(run)[1:] == [
        (51240, {"operand": 51240 - 6000}),
        (51240, {"engine_queue": 51240 - 9000}),
        (51240 + 3000, {}),
    ]


def test_freed_bytes_are_written_when_their_reader_is_done(simulate):
    def kernel(tl, a, b):
        x = tl.load(a)
        kept = tl.exp(x)
        issued(kept)
        tl.free(x)
        y = tl.load(b)
        del kept
        assert y.matrix.address == x.matrix.address

    tcm = ("memory: {space: tcm, size: 1 MiB}", "memory: {space: tcm, size: 129 KiB}")  # two tiles of 512 bytes
    run = simulate(kernel, F16, F16, changes=(*DECOUPLED, tcm))
    done = 51240 + 4000 + MOVE + EXP + MOVE
    assert submitted(run)[2] == (done, {"operand": done - 9000})


def test_a_load_of_stored_bytes_waits_for_the_store_in_its_queue(simulate):
    def kernel(tl, a, c):
        tl.store(c, tl.exp(tl.load(a)))
        tl.load(c)

    run = simulate(kernel, F16, F16, changes=DECOUPLED)
    end = run.times(2, 0)[0][2]
    assert submitted(run)[3] == (end, {"operand": end - 12000})


def test_a_look_waits_for_its_load_alone(simulate):
    def kernel(tl, a, b):
        x = tl.load(a)
        issued(tl.exp(tl.load(b)))
        assert x[0, 0] == 0
        tl.load(b)

    assert submitted(simulate(kernel, F16, F16, changes=DECOUPLED))[3] == (51240 + 3000, {})


def busy_kernel(tl, a, b, c):
    """Loads, sums and math that take TCM again and again, and stores that are read back."""
    for row in range(0, 32, 8):
        part = slice(row, row + 8)
        acc = 0
        for k in range(0, 24, 8):
            acc = tl.dot(tl.load(a[part, k : k + 8]), tl.load(b[k : k + 8]), acc)
        tl.store(c[part, :], tl.exp(acc * 0.01))
        again = tl.load(c[part, :])
        tl.store(c[part, :], again + 1.0)
        tl.composite("mul", c[part, :], 2.0, out=c[part, :])


@pytest.mark.parametrize("changes", [(), SCOREBOARD, DECOUPLED, ONE, ONE + SHALLOW], ids=["b", "s", "d", "1", "all 1"])
def test_all_ways_to_issue_give_the_same_data(chip_host, changes):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((32, 24), np.float32), rng.standard_normal((24, 16), np.float32)
    found = []
    for each in ((), changes):
        writer = MemoryLogWriter()
        host = chip_host(*each, writer=writer)
        out = host.empty("c", (32, 16), "f32")
        host.launch(busy_kernel, host.tensor("a", a, "f32"), host.tensor("b", b, "f32"), out, pes=[0])
        log = host.engine.close_log()
        assert not each or sanitize(log) == []
        found.append(np.array(read_tensor(Executor(log, host.engine.initial_memory, "tile").run(), out)))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], 2 * (np.exp(a.astype(float) @ b * 0.01) + 1), rtol=1e-5)


def test_loads_run_ahead_as_far_as_tcm_and_queues_allow(simulate):
    def kernel(tl, a):
        for _ in range(6):
            issued(tl.exp(tl.load(a)))

    run = simulate(kernel, F16, changes=DECOUPLED)
    # The read channel works without a gap: every tile has a place of its own in TCM.
    reads = [run.times(number, 0)[0] for number in range(0, 12, 2)]
    assert [each[1:3] for each in reads] == [(7000 + n * READ, 7000 + (n + 1) * READ) for n in range(6)]
