"""Grids: which PE takes which program and when, what programs of one PE share, and how errors name them.

All times are picoseconds on the toy chip: a load of one byte takes 3000 to issue, 1000 to pass the crossbar each way,
and 30,020 in the memory. Two requests that come at once are served 20 apart, because the byte holds the memory so long.
"""

import numpy as np
import pytest

from kb_engine.observe import Callbacks
from kb_engine.program import LeakWatch
from kb_messages import KernelError, SimulationStuckError

LOAD, PROGRAM = 3000 + 2 * 1000 + 30_020, 500
TWO = ("pe_layout: {count: 1}", "pe_layout: {count: 2}")
COST = ("issue_ps: 3000", f"issue_ps: 3000, program_ps: {PROGRAM}")
AHEAD = ("impl: toy.cpu", "impl: toy.ahead_cpu")
SIZES = "needs a number of programs, or one to three numbers, each at least 1"
PES = ["sip0.cube0.pe0", "sip0.cube0.pe1"]


def byte(host, name="a"):
    return host.tensor(name, np.zeros(1, np.int8), "i8")


def square(host, name="s", side=16):
    return host.tensor(name, np.zeros((side, side), np.float16), "f16")


def loads(counts):
    """A kernel whose program p loads a byte counts[p] times."""

    def kernel(tl, a):
        for _ in range(counts[tl.program_id(0)]):
            tl.load(a)

    return kernel


def ran(result):
    return [(PES.index(each.pe_id), each.start_ps, each.end_ps) for each in result.programs]


def test_the_pe_that_is_free_first_takes_the_next_program(toy_host):
    host = toy_host(TWO, COST)
    result = host.launch(loads([3, 1, 1, 1, 2]), byte(host), grid=5)
    # Both first loads come to the memory at once, so that of PE 1 waits 20. Later ones are 520 or 1020 apart.
    p1 = PROGRAM + LOAD + 20
    p2, p3 = p1 + PROGRAM + LOAD, p1 + 2 * (PROGRAM + LOAD)
    p0 = PROGRAM + 3 * LOAD
    p4 = p0 + PROGRAM + 2 * LOAD
    assert ran(result) == [(0, 0, p0), (1, 0, p1), (1, p1, p2), (1, p2, p3), (0, p0, p4)]
    assert result.pe_start_ps == dict.fromkeys(PES, 0)
    assert result.pe_end_ps == {PES[0]: p4, PES[1]: p3}
    assert (result.start_ps, result.end_ps, host.engine.programs) == (0, p4, (5, 5))


def test_in_a_static_schedule_every_pe_has_its_own_programs(toy_host):
    host = toy_host(TWO, COST)
    result = host.launch(loads([3, 1, 1, 1, 2]), byte(host), grid=5, schedule="static")
    p1 = PROGRAM + LOAD + 20
    p3 = p1 + PROGRAM + LOAD
    p0 = PROGRAM + 3 * LOAD
    p2, p4 = p0 + PROGRAM + LOAD, p0 + 2 * PROGRAM + 3 * LOAD
    assert ran(result) == [(0, 0, p0), (1, 0, p1), (0, p0, p2), (1, p1, p3), (0, p2, p4)]


def test_of_two_pes_that_are_free_at_once_the_first_of_the_launch_takes_first(toy_host):
    host = toy_host(TWO, COST)
    for pes, order in (([0, 1], [0, 1, 0, 1]), ([1, 0], [1, 0, 1, 0])):
        result = host.launch(lambda tl: None, grid=4, pes=pes)
        now = result.start_ps
        assert [(pe, start - now, end - now) for pe, start, end in ran(result)] == [
            (order[0], 0, PROGRAM),
            (order[1], 0, PROGRAM),
            (order[2], PROGRAM, 2 * PROGRAM),
            (order[3], PROGRAM, 2 * PROGRAM),
        ]


def test_a_pe_without_a_program_is_done_at_once(toy_host):
    host = toy_host(TWO, COST)
    result = host.launch(loads([1]), byte(host), grid=1)
    assert result.pe_end_ps == {PES[0]: PROGRAM + LOAD, PES[1]: 0}


def test_a_launch_without_a_grid_pays_for_no_program(toy_host):
    host = toy_host(TWO, COST)
    result = host.launch(loads([1, 0]), byte(host))
    assert result.pe_end_ps == {PES[0]: LOAD, PES[1]: 0}
    assert result.programs == ()


def test_the_next_program_begins_when_the_last_command_is_issued(toy_host, writer):
    def kernel(tl, a, s):
        if tl.program_id(0) == 0:
            tl.composite("gemm", s, s, out=s)
        else:
            tl.load(a)

    host = toy_host(COST, writer=writer)
    result = host.launch(kernel, byte(host), square(host), grid=2)
    (_, first, composite), (_, second, load) = ran(result)
    issued = PROGRAM + 3000
    assert (first, second) == (0, issued)
    assert composite > issued + PROGRAM + 3000  # it is under way while the second program runs
    assert load > issued + PROGRAM + LOAD  # the read waits behind those of the composite
    assert result.end_ps == max(composite, load)
    host.engine.close_log()
    kernels = writer.close().table("kernels")
    columns = [kernels[name].tolist() for name in ("t_target_ps", "t_start_ps", "t_end_ps")]
    assert columns == [[0, issued], [0, issued], [composite, load]]


def test_the_log_has_the_programs_in_their_order(toy_host, writer):
    host = toy_host(TWO, COST, writer=writer)
    result = host.launch(loads([3, 1, 1, 1, 2]), byte(host), grid=5)
    host.engine.close_log()
    log = writer.close()
    rows = log.table("kernels")
    assert [log.strings[pe] for pe in rows["pe"]] == [each.pe_id for each in result.programs]
    assert rows["t_end_ps"].tolist() == [each.end_ps for each in result.programs]


def test_programs_are_numbered_along_three_axes_the_first_the_fastest(toy_host):
    seen = []

    def kernel(tl):
        seen.append(tuple(call(axis) for axis in range(3) for call in (tl.program_id, tl.num_programs)))

    host = toy_host()
    host.launch(kernel, grid=(2, 3, 2))
    assert seen == [(x, 2, y, 3, z, 2) for z in range(2) for y in range(3) for x in range(2)]
    seen.clear()
    host.launch(kernel, grid=[2])
    assert seen == [(0, 2, 0, 1, 0, 1), (1, 2, 0, 1, 0, 1)]


def test_the_tcm_of_a_program_goes_back_with_it(toy_host):
    kept, held_by = [], []

    def kernel(tl, s):
        kept.append(tl.load(s))  # 80,000 of the 131,072 bytes

    host = toy_host(observers=[Callbacks(on_program_end=lambda pe, held: held_by.append((pe, len(held))))])
    host.launch(kernel, square(host, side=200), grid=4)
    assert held_by == [(PES[0], 1)] * 4


def test_with_a_scoreboard_the_tcm_goes_back_when_the_kernel_returns(toy_host, writer):
    kept = []

    def kernel(tl, s):
        kept.append(tl.load(s))

    host = toy_host(COST, AHEAD, writer=writer)
    result = host.launch(kernel, square(host, side=200), grid=3)
    read = 30_000 + 2000 + 80_000 * 20
    # Every program returns at issue, and the read of the next one waits for the last user of its bytes.
    ends = [PROGRAM + 3000 + read]
    starts = [0, PROGRAM + 3000]
    ends += [ends[0] + read, ends[0] + 2 * read]
    starts += [ends[0]]
    assert ran(result) == [(0, start, end) for start, end in zip(starts, ends, strict=True)]


def test_leaks_are_those_of_each_program(toy_host):
    kept = []

    def kernel(tl, a, s):
        kept.extend(tl.composite("gemm", s, s) for _ in range(1 + tl.program_id(0) % 2))
        tl.load(a)

    watch = LeakWatch()
    host = toy_host(observers=[watch])
    host.launch(kernel, byte(host), square(host), grid=4)
    (leak,) = watch.leaks
    assert (leak.count, leak.nbytes, leak.programs) == (2, 2 * 512, 2)


def test_an_error_names_its_program(toy_host):
    def kernel(tl, a):
        if tl.program_id(0) == 1 and tl.program_id(1) == 2:
            tl.program_id(3)

    def divides(tl, a):
        assert 1 // (3 - tl.program_id(0)) < 2

    host = toy_host(TWO)
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, byte(host), grid=(2, 4))
    line = f"test_grid_launch.py:{kernel.__code__.co_firstlineno + 2}"
    got = "got tl.program_id of axis 3, needs 0, 1 or 2"
    assert str(caught.value) == f"{line}, in program (1, 2, 0) on {PES[1]}: {got}"
    host = toy_host(TWO)
    with pytest.raises(
        Exception, match=r"test_grid_launch\.py:\d+, in program 3 on sip0\.cube0\.pe1: got ZeroDivision"
    ):
        host.launch(divides, byte(host), grid=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": 0}, f"grid=0, {SIZES}"),
        ({"grid": (1, 2, 3, 4)}, f"grid=(1, 2, 3, 4), {SIZES}"),
        ({"grid": "x"}, f"grid='x', {SIZES}"),
        ({"grid": (2, 1.5)}, f"grid=(2, 1.5), {SIZES}"),
        ({"grid": ()}, f"grid=(), {SIZES}"),
        ({"grid": 4, "schedule": "random"}, "schedule='random', needs 'dynamic' or 'static'"),
        ({"schedule": "static"}, "schedule='static' without a grid, needs a grid, whose programs it spreads"),
    ],
)
def test_wrong_grids_are_refused(toy_host, options, message):
    with pytest.raises(KernelError) as caught:
        toy_host().launch(lambda tl: None, **options)
    assert str(caught.value) == f"launch: got {message}"


def test_a_barrier_over_more_programs_than_pes_is_reported_as_such(toy_host):
    """Each program raises its flag, and polls those of all others."""

    def kernel(tl, a, flags):
        tl.store(flags[tl.program_id(0) : tl.program_id(0) + 1], tl.load(a))
        for other in range(tl.num_programs(0)):
            while not is_up(tl, flags[other : other + 1]):
                pass

    def is_up(tl, flag):
        return tl.load(flag)[0]

    def launch(grid):
        host = toy_host(TWO, most_repeated_loads=256)
        one = host.tensor("one", np.ones(1, np.int8), "i8")
        return host.launch(kernel, one, host.tensor("flags", np.zeros(4, np.int8), "i8"), grid=grid)

    assert len(launch(2).programs) == 2
    with pytest.raises(SimulationStuckError) as caught:
        launch(4)
    text = str(caught.value)
    assert ": 4 of 4 kernels have polled " in text
    assert (
        "2 programs have not begun, because no PE is free: programs that wait for each other, as at a barrier over the "
        "grid, need a PE each, and the launch has 2; kernels that poll:"
    ) in text


def test_a_stuck_program_is_named_and_the_queue_is_reported(toy_host):
    def kernel(tl, s):
        if tl.program_id(0) == 1:
            tl.wait(tl.composite("gemm", s, s, out=s, tile=(16, 16, 16)))

    host = toy_host(COST, ("impl: toy.dma", "impl: toy.losing_dma"))
    with pytest.raises(SimulationStuckError) as caught:
        host.launch(kernel, square(host, side=32), grid=3)
    first, *lines = str(caught.value).split("\n")
    assert ": 2 of 3 kernels cannot go on, " in first
    assert "; 1 program has not begun, because " in first
    assert first.endswith(" need a PE each, and the launch has 1; who waits for whom:")
    assert lines[0].startswith(f"  program 1 on {PES[0]}: the kernel waits at ")


def test_kernel_positions_list_programs_that_run_and_wait(toy_host):
    def interrupt():
        raise KeyboardInterrupt

    def kernel(tl, s):
        if tl.program_id(0):
            tl.wait(tl.composite("gemm", s, s, out=s, tile=(1, 1, 1)))

    host = toy_host(TWO, COST, observers=[Callbacks(on_housekeeping=interrupt)])
    with pytest.raises(KeyboardInterrupt):
        host.launch(kernel, square(host, side=64), grid=8)
    first, queued, ended = host.engine.kernel_positions()
    assert first.startswith(
        f"program 2 on {PES[0]} (and 1 more PE at the same line, up to program 1 on {PES[1]}): the kernel waits"
    )
    assert (queued, ended) == ("5 of 8 programs wait for a PE", "1 of 8 kernels have ended")


def test_a_grid_repeats_exactly(toy_host):
    from kb_dataexec import MemoryLogWriter

    def run():
        log = MemoryLogWriter()
        host = toy_host(TWO, COST, writer=log)
        host.launch(loads([each % 3 for each in range(40)]), byte(host), grid=40)
        host.engine.close_log()
        return log.close().digest

    assert run() == run()
