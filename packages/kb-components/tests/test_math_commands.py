"""What math composites and simple commands cost, every time computed by hand; numbers as in test_pipeline.py.

One f16 tile of 16 x 16 on the round chip, in picoseconds: a read or a write 44240, FETCH and STORE of 512 bytes 3560,
exp of 256 elements in 16 lanes, 4 cycles a group, 64000.
"""

import pytest

from kb_messages import CommandComplete

READ = WRITE = 44240
MOVE, EXP = 3560, 64000


def exp(tl, a, c):
    tl.composite("exp", a, out=c, tile=(16, 16))


def test_one_tile_passes_through_five_stages(simulate):
    run = simulate(exp, (16, 16, "f16"), (16, 16, "f16"))
    assert run.times(0, 0) == [
        (7000, 7000, 51240, 51240),
        (51240, 51240, 54800, 54800),
        (54800, 54800, 118800, 118800),
        (118800, 118800, 122360, 122360),
        (122360, 122360, 166600, 166600),
    ]
    record = run.records[0, 0, 2]
    assert (record.kind.name, record.name, record.params) == ("MATH", "math", '{"op":"exp"}')
    assert [operand.role.name for operand in record.operands] == ["IN", "OUT"]


def test_in_the_steady_state_the_slowest_stage_is_never_idle(simulate):
    run = simulate(exp, (64, 16, "f16"), (64, 16, "f16"))
    # A tile is read in 44240, less than its exp takes: from the second tile on they wait for the lanes.
    assert [run.times(0, tile)[2][1:3] for tile in range(4)] == [
        (54800 + tile * EXP, 54800 + (tile + 1) * EXP) for tile in range(4)
    ]
    assert run.end_ps == 54800 + 4 * EXP + MOVE + WRITE


def test_a_ragged_edge_costs_what_it_has(simulate):
    run = simulate(exp, (19, 16, "f16"), (19, 16, "f16"))
    # 3 rows of 32 bytes: 34000 + 96 x 20 to read, 1000 + 96 x 5 to fetch, 3 groups of 4 cycles.
    times = run.times(0, 1)
    assert [end - start for _, start, end, _ in times] == [35920, 1480, 12000, 1480, 35920]


def test_a_number_is_an_argument_that_costs_no_read(simulate):
    run = simulate(lambda tl, a, c: tl.composite("mul", a, 2.0, out=c), (16, 16, "f16"), (16, 16, "f16"))
    assert [record.name for _, record in sorted(run.records.items())] == [
        "dma_read", "fetch", "math", "store", "dma_write",
    ]  # fmt: skip
    assert run.records[0, 0, 2].params == '{"op":"mul","scalars":[2.0]}'


def test_a_simple_command_blocks_until_its_result_is_in_tcm(simulate):
    run = simulate(lambda tl, a: tl.wait(tl.exp(tl.load(a))), (16, 16, "f16"))
    # The load ends at 51240; 7000 to issue and take the next command, which has no DMA.
    assert run.times(1, 0) == [
        (58240, 58240, 61800, 61800),
        (61800, 61800, 125800, 125800),
        (125800, 125800, 129360, 129360),
    ]
    assert run.end_ps == 129360


def test_operators_follow_each_other_in_registers(simulate):
    def kernel(tl, a):
        x = tl.load(a)
        tl.wait((x - 1.0) * x)

    run = simulate(kernel, (16, 16, "f16"))
    # One command: it fetches x, computes x - 1 and the product at 256 / 16 cycles each, and stores the product.
    ends = [58240 + MOVE, 58240 + MOVE + 16000, 58240 + MOVE + 32000, 58240 + MOVE + 32000 + MOVE]
    assert [end for _, _, end, _ in run.times(1, 0)] == ends
    assert run.end_ps == ends[-1]


def test_a_dot_is_a_gemm_of_one_tile(simulate):
    def kernel(tl, a):
        x = tl.load(a)
        tl.dot(x, x)

    run = simulate(kernel, (16, 16, "f16"))
    # FETCH of both operands 6120, GEMM 46000, STORE of 256 f32: 1000 + 1024 x 5.
    assert run.times(1, 0) == [
        (58240, 58240, 64360, 64360), (64360, 64360, 110360, 110360), (110360, 110360, 116480, 116480),
    ]  # fmt: skip


@pytest.mark.parametrize(("axis", "cycles", "stored"), [(0, 16, 32), (1, 16 * 5, 32)])
def test_a_sum_pays_its_tree_along_the_lanes(simulate, axis, cycles, stored):
    run = simulate(lambda tl, a: tl.wait(tl.sum(tl.load(a), axis=axis)), (16, 16, "f16"))
    times = run.times(1, 0)
    assert [end - start for _, start, end, _ in times] == [MOVE, cycles * 1000, 1000 + stored * 5]


def test_every_math_command_ends_at_depth_one_with_the_smallest_register_file(simulate):
    def kernel(tl, a, b, c):
        x = tl.load(a)
        tl.composite("add", a, b, out=c, tile=(8, 8))
        tl.composite("gemm", a, b, out=c, tile=(8, 8, 8), epilogue=(tl.bias(b[0:1]), tl.relu()))
        tl.composite("exp", x, out=c, tile=(8, 8))
        tl.composite("add", x, b, out=c, tile=(8, 8))

    # The gemm's A, B and bias take 128 + 128 + 64 bytes of registers, its accumulator 256.
    changes = (("queue_depth: 4", "queue_depth: 1"), ("size: 64 KiB", "size: 576 B"))
    run = simulate(kernel, *[(20, 20, "f16")] * 3, changes=changes)
    assert len(run.traced(CommandComplete)) == 5


def test_a_number_in_front_is_one_command_and_holds_one_result(simulate):
    def kernel(tl, a):
        x = tl.load(a)
        for _ in range(300):  # 2 KiB each: together more than the 896 KiB there are
            tl.wait(1 - x)
            tl.wait(1 / x)
            tl.wait(tl.where(x, 1, x))

    run = simulate(kernel, (32, 32, "f16"), log=False)
    assert len(run.plans) == 1 + 300 * 3
