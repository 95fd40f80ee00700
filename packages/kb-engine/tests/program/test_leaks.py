"""Leaks of TCM: a place in a kernel that allocated more than once, whose values are kept when the kernel returned."""

import gc

import numpy as np
import pytest

from kb_engine.program.author.kernel_findings import Leak, LeakWatch

SIDE = 64
NBYTES = SIDE * 4
"""Of a row."""
KEPT = []
"""Outlives every kernel."""


def keep(value):
    KEPT.append(value)


@pytest.fixture
def leaks_of(toy_host):
    """The leaks of *kernel*, launched *launches* times on *n_pes* PEs, all of whose TCM is given back."""

    def run(kernel, n_pes=1, launches=1):
        watch = LeakWatch()
        host = toy_host(("pe_layout: {count: 1}", f"pe_layout: {{count: {n_pes}}}"), observers=[watch])
        pes = host.engine.pes.values()
        free = [pe.tcm.free_nbytes for pe in pes]
        a = host.tensor("a", np.ones((SIDE, SIDE), np.float32), "f32")
        for _ in range(launches):
            host.launch(kernel, a)
        assert [pe.tcm.free_nbytes for pe in pes] == free
        return watch.leaks

    return run


def line(function, further):
    return f"test_leaks.py:{function.__code__.co_firstlineno + further}"


def loop(tl, a):
    for row in range(5):
        keep(tl.load(a[row : row + 1]))


def loop_that_frees_some(tl, a):
    for row in range(5):
        loaded = tl.load(a[row : row + 1])
        keep(loaded)
        if row % 2:
            tl.free(loaded)


def comprehension(tl, a):
    KEPT.extend([tl.load(a[row : row + 1]) for row in range(2)])


def fetch(tl, a, row):
    return tl.load(a[row : row + 1])


def loop_over_a_helper(tl, a):
    for row in range(4):
        keep(fetch(tl, a, row))


def composites(tl, a):
    for _ in range(3):
        keep(tl.composite("gemm", a[0:1], a))


def by_program(tl, a):
    for row in range(2 + tl.program_id()):
        keep(tl.load(a[row : row + 1]))


def cycles(tl, a):
    for _ in range(2):
        cycle = [tl.load(a[0:1])]
        cycle.append(cycle)
    gc.collect()


@pytest.mark.parametrize(
    ("kernel", "where", "count"),
    [
        (loop, line(loop, 2), 5),
        (loop_that_frees_some, line(loop_that_frees_some, 2), 3),
        (comprehension, line(comprehension, 1), 2),
        (loop_over_a_helper, line(fetch, 1), 4),
        (composites, line(composites, 2), 3),
        (cycles, line(cycles, 2), 2),
    ],
)
def test_a_loop_whose_values_something_keeps_leaks(leaks_of, kernel, where, count):
    (found,) = leaks_of(kernel)
    assert found == Leak(line=where, count=count, nbytes=count * NBYTES, programs=1, pes=("sip0.cube0.pe0",))


def freeing(tl, a):
    for row in range(5):
        tl.free(tl.load(a[row : row + 1]))


def one_ahead(tl, a):
    following = tl.load(a[0:1])
    for row in range(1, 5):
        current, following = following, tl.load(a[row : row + 1])
        tl.free(current)


def in_a_list_of_the_kernel(tl, a):
    kept = [tl.load(a[row : row + 1]) for row in range(5)]
    assert len(kept) == 5


def two_in_a_line(tl, a):
    KEPT.extend((tl.load(a[0:1]), tl.load(a[1:2])))


def twice_by_a_helper(tl, a):
    keep(fetch(tl, a, 0))
    keep(fetch(tl, a, 1))


@pytest.mark.parametrize("kernel", [freeing, one_ahead, in_a_list_of_the_kernel, two_in_a_line, twice_by_a_helper])
def test_values_without_references_and_values_kept_once_are_no_leak(leaks_of, kernel):
    assert leaks_of(kernel) == []


def test_programs_of_one_line_are_one_leak_with_the_most_that_one_held(leaks_of):
    (found,) = leaks_of(by_program, n_pes=3, launches=2)
    assert found == Leak(
        line=line(by_program, 2),
        count=4,
        nbytes=4 * NBYTES,
        programs=6,
        pes=("sip0.cube0.pe0", "sip0.cube0.pe1", "sip0.cube0.pe2"),
    )
    assert str(found) == (
        f"leak of TCM: {line(by_program, 2)} allocates in a loop, and its program holds up to 4 of these (1024 bytes) "
        "until each of 6 programs ends, on sip0.cube0.pe0 to sip0.cube0.pe2; keep no reference to a "
        "value outside the kernel or in a cycle"
    )


def test_a_leak_of_one_program_names_no_number_of_programs(leaks_of):
    (found,) = leaks_of(loop)
    assert str(found) == (
        f"leak of TCM: {line(loop, 2)} allocates in a loop, and its program holds 5 of these (1280 bytes) until it "
        "ends, on sip0.cube0.pe0; keep no reference to a "
        "value outside the kernel or in a cycle"
    )


def failing(tl, a):
    loop(tl, a)
    raise ValueError("enough")


def test_a_kernel_that_fails_gives_its_tcm_back_too(leaks_of):
    with pytest.raises(Exception, match="enough"):
        leaks_of(failing)
