"""PE_CPU with `issue: scoreboard`: calls return at issue, and later commands wait for their operands. Times by hand.

Numbers of the round chip in picoseconds, as in test_pipeline.py and test_math_commands.py: 3000 from a call to the
submission queue, 4000 to take a command. A read or write of 512 bytes 44240, FETCH or STORE of it 3560, exp 64000.
"""

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, read_tensor
from kb_messages import CommandSubmitted, KernelError, TopologyError

SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)
READ = WRITE = 44240
MOVE, EXP = 3560, 64000
F16 = (16, 16, "f16")


def submitted(run):
    """When each command entered the submission queue, and what it waited for."""
    return [(event.t_ps, event.waits_ps) for event in run.traced(CommandSubmitted)]


def test_independent_loads_are_issued_one_after_the_other(simulate):
    def kernel(tl, a, b):
        x, y = tl.load(a), tl.load(b)
        assert x.place.address != y.place.address

    # The second call begins at 3000, when the first returns; its command is taken from 7000 to 11000, and the channel
    # is free at 7000 + 44240 = 51240. Blocking, it would begin at 51240 + 7000.
    run = simulate(kernel, F16, F16, changes=SCOREBOARD)
    assert submitted(run) == [(3000, {}), (6000, {})]
    assert run.times(0, 0) == [(7000, 7000, 51240, 51240)]
    assert run.times(1, 0) == [(11000, 51240, 95480, 95480)]
    assert simulate(kernel, F16, F16).times(1, 0) == [(58240, 58240, 58240 + READ, 58240 + READ)]


def test_a_dot_waits_for_both_of_its_loads(simulate):
    def kernel(tl, a, b, c):
        tl.store(c, tl.dot(tl.load(a), tl.load(b)))

    run = simulate(kernel, F16, F16, (16, 16, "f32"), changes=SCOREBOARD)
    # Loads end at 51240 and 95480. The dot is called at 6000 and arrives at 9000. FETCH of 1024 bytes 6120, GEMM 46000,
    # STORE of 1024 bytes 6120. The store is called at 95480 and waits for it from 98480 on; WRITE of 1024 bytes:
    # 2000 + 1000 + 1024 x 20 + 30000 + 1000.
    assert submitted(run)[2] == (95480, {"operand": 95480 - 9000})
    fetched = 95480 + 4000 + 6120
    done = fetched + 46000 + 6120
    assert run.times(2, 0) == [
        (99480, 99480, fetched, fetched),
        (fetched, fetched, fetched + 46000, fetched + 46000),
        (fetched + 46000, fetched + 46000, done, done),
    ]
    assert submitted(run)[3] == (done, {"operand": done - 98480})
    assert run.end_ps == done + 4000 + 2000 + 1000 + 1024 * 20 + 30000 + 1000


def test_what_does_not_depend_on_a_load_overtakes_the_wait_for_it(simulate):
    def kernel(tl, a, b):
        x, y = tl.load(a), tl.load(b)
        tl.wait(tl.exp(x))
        assert x.place.address != y.place.address

    run = simulate(kernel, F16, F16, changes=SCOREBOARD)
    # exp waits for the first load alone, so it runs while the second is read.
    assert submitted(run)[2] == (51240, {"operand": 51240 - 9000})
    assert run.times(2, 0)[0] == (55240, 55240, 55240 + MOVE, 55240 + MOVE)
    assert run.times(1, 0)[0][2] == 51240 + READ


def test_freed_bytes_are_written_when_their_reader_is_done(simulate):
    def kernel(tl, a, b, frees):
        x = tl.load(a)
        powers = tl.exp(x)
        assert powers.matrix  # which has exp issued
        if frees:
            tl.free(x)
        y = tl.load(b)
        assert y.matrix.address != powers.matrix.address
        assert (y.matrix.address == x.matrix.address) is frees

    # exp enters the queue at 51240, with its operand, is taken at 55240 and done at 55240 + 3560 + 64000 + 3560. The
    # load arrives at 54240. Into other bytes it is taken from 55240 to 59240.
    done = 55240 + MOVE + EXP + MOVE
    run = simulate(lambda tl, a, b: kernel(tl, a, b, True), F16, F16, changes=SCOREBOARD)
    assert submitted(run)[2] == (done, {"operand": done - 54240})
    assert run.times(2, 0) == [(done + 4000, done + 4000, done + 4000 + READ, done + 4000 + READ)]
    run = simulate(lambda tl, a, b: kernel(tl, a, b, False), F16, F16, changes=SCOREBOARD)
    assert submitted(run)[2] == (54240, {})
    assert run.times(2, 0) == [(59240, 59240, 59240 + READ, 59240 + READ)]


def test_freed_bytes_are_written_when_their_writer_is_done(simulate):
    def kernel(tl, a, b):
        tl.free(tl.load(a))
        tl.load(b)

    run = simulate(kernel, F16, F16, changes=SCOREBOARD)
    assert submitted(run)[1] == (51240, {"operand": 51240 - 6000})


def test_a_load_of_stored_bytes_waits_for_the_store_and_one_beside_them_does_not(simulate):
    def kernel(tl, a, c):
        x = tl.load(a)
        tl.store(c[0:16, :], x)
        tl.load(c[16:32, :])
        tl.load(c[8:24, :])

    run = simulate(kernel, F16, (32, 16, "f16"), changes=SCOREBOARD)
    # The first load of c: called at 51240, submitted at 54240, its request at the memory while the bytes of the store
    # come in. The memory serves its 512 bytes, 20 a byte, before the rest of the store. The second: called at 54240,
    # and arrives at 57240.
    stored = 51240 + 4000 + WRITE + 10240
    assert submitted(run)[1:] == [
        (51240, {"operand": 51240 - 6000}),
        (54240, {}),
        (stored, {"operand": stored - 57240}),
    ]


def test_storing_a_composite_that_nobody_waited_for_waits(simulate):
    def kernel(tl, a, b, c):
        tl.store(c, tl.composite("gemm", a, b, tile=(16, 16, 16)))

    run = simulate(kernel, F16, F16, F16, changes=SCOREBOARD)
    # Two reads, FETCH, GEMM and STORE (test_pipeline.py) leave the result in TCM at 151160.
    assert submitted(run)[1] == (151160, {"operand": 151160 - 6000})
    # Blocking, the store reads what is not there yet, and nobody waits.
    assert submitted(simulate(kernel, F16, F16, F16))[1] == (6000, {})


def test_looking_at_a_loaded_element_waits_for_the_load(simulate):
    def kernel(tl, a, b):
        x = tl.load(a)
        assert x[0, 0] == 0
        tl.load(b)

    run = simulate(kernel, F16, F16, changes=SCOREBOARD)
    assert submitted(run)[1] == (51240 + 3000, {})


def test_integers_are_known_when_their_loads_are_done(simulate):
    def kernel(tl, a):
        x = tl.load(a) + 1
        assert int(x[0, 0]) == 1
        tl.load(a[0:1, :])

    run = simulate(kernel, (16, 8, "i32"), changes=SCOREBOARD)
    # The load of 512 bytes ends at 51240. Nobody asks for the bytes of the sum, so no command makes them.
    assert submitted(run)[1:] == [(51240 + 3000, {})]


def test_a_full_submission_queue_holds_the_kernel_back(simulate):
    def kernel(tl, a):
        loaded = [tl.load(a) for _ in range(4)]
        assert len({each.place.address for each in loaded}) == 4

    changes = (*SCOREBOARD, ("submission_depth: 8", "submission_depth: 1"), ("command_ns: 4", "command_ns: 10"))
    run = simulate(kernel, F16, changes=changes)
    # The first is taken at once, for 10000, until 13000; the second enters at 6000, and the third when it is taken.
    assert submitted(run) == [
        (3000, {}), (6000, {}), (13000, {"queue_full": 4000}), (23000, {"queue_full": 7000}),
    ]  # fmt: skip


def test_materialize_waits_for_the_value(simulate):
    seen = []

    def kernel(tl, a):
        seen.append(tl.materialize(tl.exp(tl.load(a)))[3, 4])
        tl.load(a)

    run = simulate(kernel, F16, changes=SCOREBOARD)
    assert seen == [1.0]
    assert submitted(run)[2] == (51240 + 4000 + MOVE + EXP + MOVE + 3000, {})


def busy_kernel(tl, a, b, c):
    """Loads, products and math that take TCM again and again, and stores that are read back."""
    for row in range(0, 32, 8):
        part = slice(row, row + 8)
        x = tl.load(a[part, :])
        product = tl.dot(x, tl.load(b))
        tl.free(x)
        result = tl.exp(product * 0.01)
        tl.free(product)
        tl.store(c[part, :], result)
        again = tl.load(c[part, :])
        tl.free(result)
        tl.store(c[part, :], again + 1.0)


def test_both_ways_to_issue_give_the_same_data(chip_host):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((32, 24), np.float32), rng.standard_normal((24, 16), np.float32)
    found, ends = [], []
    for changes in ((), SCOREBOARD):
        writer = MemoryLogWriter()
        host = chip_host(*changes, writer=writer)
        out = host.empty("c", (32, 16), "f32")
        launch = host.launch(busy_kernel, host.tensor("a", a, "f32"), host.tensor("b", b, "f32"), out, pes=[0])
        host.engine.close_log()
        found.append(read_tensor(Executor(writer.close(), host.engine.initial_memory, "tile").run(), out))
        ends.append(launch.end_ps)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], np.exp(a.astype(float) @ b * 0.01) + 1, rtol=1e-5)
    assert ends[1] < ends[0]


def test_the_choice_is_checked(chip):
    with pytest.raises(TopologyError) as caught:
        Engine(chip(("issue_ns: 3}", "issue_ns: 3, issue: later}")))
    assert str(caught.value) == (
        "chip.yaml:10:65: $.cube.pe_template.nodes.pe_cpu.issue: got 'later', "
        "needs one of blocking, scoreboard, decoupled"
    )


def test_freeing_twice_is_still_refused(chip_host):
    def kernel(tl, a):
        x = tl.load(a)
        tl.free(x)
        tl.free(x)

    host = chip_host(*SCOREBOARD)
    with pytest.raises(KernelError, match=r"got a second tl.free of the same handle, needs one$"):
        host.launch(kernel, host.tensor("a", np.zeros((4, 4), np.float32), "f32"), pes=[0])
