"""TCM is freed with the last reference to a value: the moment, and references that keep it longer."""

import gc
from threading import Event, Thread

import numpy as np
import pytest

from kb_engine.memory.allocator import Allocator, Lease
from kb_engine.program.tcm_holder import TcmHolder
from kb_messages import DType, Matrix

A = np.ones((16, 16), np.float32)
NBYTES = A.nbytes


@pytest.fixture
def free_at(toy_host):
    """Runs a kernel that is given `free()`: the bytes of TCM in use at that moment, less those before the launch."""

    def run(kernel):
        host = toy_host()
        a, c = (host.tensor(name, A, "f32") for name in "ac")
        tcm = host.engine.pes["sip0.cube0.pe0"].tcm
        before = tcm.free_nbytes
        host.launch(lambda tl, a, c: kernel(tl, a, c, lambda: before - tcm.free_nbytes), a, c)
        assert tcm.free_nbytes == before

    return run


def test_a_value_that_gets_no_name_goes_back_at_once(free_at):
    def kernel(tl, a, c, used):
        tl.load(a)
        assert used() == 0
        tl.store(c, tl.load(a))
        assert used() == 0

    free_at(kernel)


def test_a_name_keeps_a_value_until_it_gets_another_one(free_at):
    def kernel(tl, a, c, used):
        x = tl.load(a)
        first = x.place.address
        x = tl.load(a)
        assert (used(), x.place.address == first) == (NBYTES, False)
        x = tl.load(a)
        assert (used(), x.place.address == first) == (NBYTES, True)  # the range that came back longest ago
        del x
        assert used() == 0

    free_at(kernel)


def test_a_transposed_view_keeps_the_value(free_at):
    def kernel(tl, a, c, used):
        turned = tl.load(a).T
        assert used() == NBYTES
        del turned
        assert used() == 0

    free_at(kernel)


def test_bytes_that_tl_free_freed_are_not_freed_again(free_at):
    def kernel(tl, a, c, used):
        x = tl.load(a)
        tl.free(x)
        y = tl.load(a)
        assert y.place.address == x.place.address
        del x
        assert used() == NBYTES

    free_at(kernel)


def test_a_cycle_keeps_a_value_until_the_program_ends_whenever_it_is_collected(free_at):
    def kernel(tl, a, c, used):
        cycle = [tl.load(a)]
        cycle.append(cycle)
        del cycle
        gc.collect()
        assert used() == NBYTES

    free_at(kernel)


def test_a_collector_in_another_thread_does_not_keep_bytes(free_at):
    """The other thread's collector is at work until the kernel has let its value go."""
    begins, ends = Event(), Event()

    class Garbage:
        def __init__(self):
            self.itself = self

        def __del__(self):
            begins.set()
            assert ends.wait(60)

    def collects():
        Garbage()
        gc.collect()

    def kernel(tl, a, c, used):
        x = tl.load(a)
        other = Thread(target=collects)
        other.start()
        assert begins.wait(60)
        assert used() == NBYTES
        del x
        kept = used()
        ends.set()
        other.join()
        assert kept == 0

    free_at(kernel)


def test_an_exception_keeps_the_values_of_its_frames(free_at):
    def fails(tl, a):
        x = tl.load(a)
        raise ValueError(str(x.shape))

    def kernel(tl, a, c, used):
        try:
            fails(tl, a)
        except ValueError:
            assert used() == NBYTES
        assert used() == 0

    free_at(kernel)


def test_a_value_that_outlives_its_program_frees_no_bytes():
    allocator = Allocator("tcm", 0, 256)
    lease = Lease(allocator)
    holder = TcmHolder(lease, Matrix.packed(4, 4, DType.F32, lease.allocate(64)))
    lease.end()
    assert allocator.allocate(64, "the next program") == 0
    del holder
    assert allocator.free_nbytes == 192
