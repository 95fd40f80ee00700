"""TCM goes back with the last reference: what a command on its way keeps, and what a scoreboard makes of it."""

import pytest

from kb_messages import KernelError

F16 = (16, 16, "f16")
TILE = (16, 16, 16)
NBYTES = 16 * 16 * 2
SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)


@pytest.fixture
def used_by(simulate, monkeypatch):
    """Runs a kernel that is given `used()`: the bytes of TCM that its program holds."""

    def run(kernel, *arguments, changes=()):
        def begin(tl, *tensors):
            allocator = tl._port.tcm.allocator
            before = allocator.free_nbytes
            kernel(tl, *tensors, lambda: before - allocator.free_nbytes)

        return simulate(begin, *arguments, changes=changes)

    return run


def test_a_composite_on_its_way_keeps_its_operands_and_its_result(used_by):
    def kernel(tl, a, c, used):
        first = tl.composite("gemm", tl.load(a), a, tile=TILE, epilogue=(tl.residual(tl.load(a)),))
        assert used() == 3 * NBYTES
        completion = first.completion
        del first
        assert (used(), completion.done) == (3 * NBYTES, False)
        tl.wait(tl.composite("exp", tl.load(a), out=c, tile=(16, 16)))
        assert (used(), completion.done) == (0, True)

    used_by(kernel, F16, F16)


def test_with_a_scoreboard_a_composite_keeps_nothing(used_by):
    def kernel(tl, a, c, used):
        handle = tl.composite("gemm", tl.load(a), a, out=c, tile=TILE)
        assert (used(), handle.completion.done) == (0, False)

    used_by(kernel, F16, F16, changes=SCOREBOARD)


def test_with_a_scoreboard_what_takes_the_bytes_waits_for_their_reader(used_by):
    def kernel(tl, a, b, c, used):
        x = tl.load(a)
        first = x.place.address
        tl.composite("exp", x, out=c, tile=(16, 16))
        del x
        y = tl.load(b)
        assert y.place.address == first

    run = used_by(kernel, F16, F16, F16, changes=SCOREBOARD)
    # The second load is in the DMA's queue when exp, the command before it, has ended.
    (exp,), (load,) = run.times(1, 0)[-1:], run.times(2, 0)
    assert load[0] >= exp[3]


def test_a_view_keeps_the_value(used_by):
    def kernel(tl, a, c, used):
        turned = tl.load(a).T
        product = tl.dot(turned, turned)
        assert used() == NBYTES + 2 * NBYTES
        del turned
        assert used() == 2 * NBYTES
        del product
        assert used() == 0

    used_by(kernel, F16, F16)


def test_a_tcm_full_of_what_math_waits_for_is_emptied(simulate):
    def sums(tl, a, c, waits):
        total = tl.zeros((64, 256), "f32")
        for _ in range(40):
            total = total + tl.load(a)  # 64 KiB each
            if waits:
                tl.wait(total)
        tl.store(c, total)

    def vector_commands(waits):
        run = simulate(lambda tl, a, c: sums(tl, a, c, waits), (64, 256, "f32"), (64, 256, "f32"))
        return sum(plan.kind == "vector" for plan in run.plans)

    # 896 KiB hold 14 blocks, and then the sum so far and 13 blocks: 14 + 13 + 13. The store asks for the last sum.
    assert (vector_commands(waits=False), vector_commands(waits=True)) == (3, 40)


def test_a_result_that_takes_no_place_of_an_input_needs_room_of_its_own(simulate):
    def wide(tl, a, c, waits):
        total = tl.zeros((64, 256), "f32")
        for _ in range(40):
            total = total + tl.load(a).to("f32")  # 32 KiB, whose sum takes 64
            if waits:
                tl.wait(total)
        tl.store(c, total)

    with pytest.raises(KernelError, match=r"or smaller ones; tl.wait\(x\) computes x at once, and frees"):
        simulate(lambda tl, a, c: wide(tl, a, c, False), (64, 256, "f16"), (64, 256, "f32"))
    simulate(lambda tl, a, c: wide(tl, a, c, True), (64, 256, "f16"), (64, 256, "f32"))
