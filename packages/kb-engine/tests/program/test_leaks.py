"""What counts as a leak of TCM: the same place in a kernel that allocated more than once and holds it at the end."""

import numpy as np
import pytest

from kb_engine.program.leaks import Leak, LeakWatch

SIDE = 64
NBYTES = SIDE * 4
"""Of a row."""


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
        tl.load(a[row : row + 1])


def loop_that_frees_some(tl, a):
    for row in range(5):
        loaded = tl.load(a[row : row + 1])
        if row % 2:
            tl.free(loaded)


def comprehension(tl, a):
    return [tl.load(a[row : row + 1]) for row in range(2)]


def fetch(tl, a, row):
    return tl.load(a[row : row + 1])


def loop_over_a_helper(tl, a):
    for row in range(4):
        fetch(tl, a, row)


def composites(tl, a):
    for _ in range(3):
        tl.wait(tl.composite("gemm", a[0:1], a))


def by_program(tl, a):
    for row in range(2 + tl.program_id()):
        tl.load(a[row : row + 1])


@pytest.mark.parametrize(
    ("kernel", "where", "count"),
    [
        (loop, line(loop, 2), 5),
        (loop_that_frees_some, line(loop_that_frees_some, 2), 3),
        (comprehension, line(comprehension, 1), 2),
        (loop_over_a_helper, line(fetch, 1), 4),
        (composites, line(composites, 2), 3),
    ],
)
def test_a_loop_that_does_not_free_leaks(leaks_of, kernel, where, count):
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


def two_in_a_line(tl, a):
    return tl.load(a[0:1]), tl.load(a[1:2])


def twice_by_a_helper(tl, a):
    fetch(tl, a, 0)
    fetch(tl, a, 1)


@pytest.mark.parametrize("kernel", [freeing, one_ahead, two_in_a_line, twice_by_a_helper])
def test_what_is_held_once_is_no_leak(leaks_of, kernel):
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
        "until each of 6 programs ends, on sip0.cube0.pe0 to sip0.cube0.pe2; tl.free each when it is no longer needed"
    )


def test_one_program_is_told_as_one(leaks_of):
    (found,) = leaks_of(loop)
    assert str(found) == (
        f"leak of TCM: {line(loop, 2)} allocates in a loop, and its program holds 5 of these (1280 bytes) until it "
        "ends, on sip0.cube0.pe0; tl.free each when it is no longer needed"
    )


def failing(tl, a):
    loop(tl, a)
    raise ValueError("enough")


def test_a_kernel_that_fails_gives_its_tcm_back_too(leaks_of):
    with pytest.raises(Exception, match="enough"):
        leaks_of(failing)
