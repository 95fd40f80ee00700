"""Math of a kernel becomes vector programs: when they close, what they compute and store, and what that gives.

Numbers of the round chip in picoseconds, as in test_math_commands.py.
"""

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, read_tensor
from kb_messages import CommandComplete, KernelError

F16 = (16, 16, "f16")
MOVE = 3560
SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)
NAMES = {"f2": "f16", "f4": "f32", "i4": "i32", "i1": "i8"}


def stages_of(run, command):
    """Name and function of the stages of *command*'s first tile."""
    records = [run.records[key] for key in sorted(run.records) if key[:2] == (command, 0)]
    return [record.params if record.name == "math" else record.name for record in records]


def kinds(run):
    return [plan.kind for plan in run.plans]


@pytest.fixture
def results(chip):
    """Runs *kernel* on *arrays* and an empty tensor for each of *outs* (shape, dtype). Returns these after pass 2."""

    def run(kernel, *arrays, outs, changes=(), mode="fused", pes=(0,)):
        engine = Engine(chip(*changes), MemoryLogWriter())
        host = Host(engine)
        given = [host.tensor(f"t{at}", each, NAMES[each.dtype.str[1:]]) for at, each in enumerate(arrays)]
        made = [host.empty(f"out{at}", shape, dtype) for at, (shape, dtype) in enumerate(outs)]
        host.launch(kernel, *given, *made, pes=pes)
        after = Executor(engine.close_log(), engine.initial_memory, mode).run()
        return [np.array(read_tensor(after, each)) for each in made]

    return run


def softmax(tl, x, y):
    wide = tl.load(x).to("f32")
    powers = tl.exp(wide - tl.max(wide, axis=1))
    tl.store(y, (powers / tl.sum(powers, axis=1)).to("f16"))


def test_a_softmax_is_three_commands(simulate):
    run = simulate(softmax, F16, F16)
    assert kinds(run) == ["transfer", "vector", "transfer"]
    assert stages_of(run, 1) == [
        "fetch", '{"op":"copy"}', '{"op":"max","axis":1}', '{"op":"sub"}', '{"op":"exp"}', '{"op":"sum","axis":1}',
        '{"op":"div"}', '{"op":"copy"}', "store",
    ]  # fmt: skip
    # 256 elements in 16 lanes: 16 cycles, 64 for exp and the quotient, 16 x (1 + 4) for max and sum.
    took = [end - start for _, start, end, _ in run.times(1, 0)]
    assert took == [MOVE, 16000, 80000, 16000, 64000, 80000, 64000, 16000, MOVE]


def test_every_stage_has_the_line_of_its_op(simulate):
    def kernel(tl, a, c):
        x = tl.load(a)
        y = x + 1
        tl.store(c, y * x)

    run = simulate(kernel, F16, F16)
    first = kernel.__code__.co_firstlineno
    lines = [run.records[1, 0, stage].line.rpartition(":")[2] for stage in range(4)]
    assert lines == [str(first + 2), str(first + 2), str(first + 3), str(first + 3)]


def test_what_nobody_needs_is_not_computed(simulate):
    def kernel(tl, a, c):
        x = tl.load(a)
        tl.exp(x)
        wide = x.to("f32")
        tl.log(wide)
        tl.store(c, -x)
        tl.exp(wide)

    run = simulate(kernel, F16, F16)
    assert kinds(run) == ["transfer", "vector", "transfer"]
    assert stages_of(run, 1) == ["fetch", '{"op":"neg"}', "store"]


def test_a_value_that_two_stores_ask_for_is_stored_once(simulate):
    def kernel(tl, a, b, c):
        y = tl.exp(tl.load(a))
        tl.store(b, y)
        tl.store(c, y)

    assert kinds(simulate(kernel, F16, F16, F16)) == ["transfer", "vector", "transfer", "transfer"]


def test_a_large_value_with_a_name_is_left_and_computed_again_when_it_is_asked_for(simulate):
    def kernel(tl, a, b, c):
        y = tl.exp(tl.load(a))
        tl.store(b, y + 1)
        tl.store(c, y - 1)

    run = simulate(kernel, F16, F16, F16)
    assert stages_of(run, 1) == ["fetch", '{"op":"exp"}', '{"op":"add","scalars":[1.0]}', "store"]
    assert stages_of(run, 3) == ["fetch", '{"op":"exp"}', '{"op":"sub","scalars":[1.0]}', "store"]


def test_a_small_value_with_a_name_is_stored_along(simulate):
    def kernel(tl, a, b, c):
        x = tl.load(a)
        largest = tl.max(x, axis=1)
        tl.store(b, x - largest)
        tl.store(c, x + largest)

    run = simulate(kernel, F16, F16, F16)
    assert len(run.records[1, 0, 3].operands) == 4  # the largest of each row, and the difference
    assert stages_of(run, 3) == ["fetch", '{"op":"add"}', "store"]


def test_a_sum_over_a_loop_does_not_grow_from_program_to_program(simulate):
    def kernel(tl, a, c):
        total = tl.load(a)
        for _ in range(8):
            x = tl.load(a)
            total = total + x
            tl.store(c, x * 2)
        tl.store(c, total)

    run = simulate(kernel, F16, F16)
    vectors = [plan for plan in run.plans if plan.kind == "vector"]
    assert max(len(plan.stages) for plan in vectors) == 2 + 3  # two sums and a product
    assert sum(len(plan.stages) - 2 for plan in vectors) == 8 + 8


def test_more_ops_than_a_program_holds_are_two_programs(results):
    def kernel(tl, a, c):
        x = tl.load(a)
        for _ in range(70):
            x = x + 1
        tl.store(c, x)

    (found,) = results(kernel, np.zeros((4, 4), np.float32), outs=[((4, 4), "f32")])
    assert (found == 70).all()


@pytest.mark.parametrize("issue", [(), SCOREBOARD])
def test_a_value_is_stored_before_a_dot_and_a_composite_read_it(simulate, issue):
    def kernel(tl, a, c):
        x = tl.load(a)
        y = tl.dot((x + 1), x.T).to("f16")
        tl.wait(tl.composite("gemm", y, a, out=c, tile=(16, 16, 16)))

    run = simulate(kernel, F16, F16, changes=issue)
    assert kinds(run) == ["transfer", "vector", "gemm", "vector", "gemm"]


def test_a_computed_value_can_be_looked_at(simulate):
    def kernel(tl, a):
        x = tl.load(a)
        assert (x + 1.5)[0, 0] == 1.5
        y = tl.materialize(x + 2.5)
        assert (y[0, 0], y.shape) == (2.5, (16, 16))

    assert kinds(simulate(kernel, F16)) == ["transfer", "vector", "vector"]


def test_a_freed_value_is_not_computed_and_cannot_be_used(simulate):
    def kernel(tl, a, c):
        x = tl.load(a)
        y = tl.exp(x)
        tl.free(y)
        with pytest.raises(KernelError, match=r"after tl\.free"):
            y + 1
        with pytest.raises(KernelError, match=r"a second tl\.free"):
            tl.free(y)
        z = tl.log(x)
        tl.free(x)  # z needs it first
        tl.store(c, z)

    run = simulate(kernel, F16, F16)
    assert kinds(run) == ["transfer", "vector", "transfer"]
    assert stages_of(run, 1) == ["fetch", '{"op":"log"}', "store"]


def test_constants_and_ranges_become_bytes_where_they_are_needed(results):
    def kernel(tl, a, b, c):
        scores = tl.load(a)
        rows, cols = tl.arange(8)[:, None], tl.arange(8)[None, :]
        tl.store(b, tl.where(rows >= cols, scores, tl.full((8, 8), -np.inf, "f32")))
        tl.store(c, tl.zeros((8, 8), "f32") + (2 * rows + cols) + tl.where((rows < 5) & (cols >= 2), 100, 0))

    scores = np.random.default_rng(0).standard_normal((8, 8), dtype=np.float32)
    causal, sums = results(kernel, scores, outs=[((8, 8), "f32")] * 2)
    row, col = np.indices((8, 8))
    assert (causal == np.where(row >= col, scores, -np.inf)).all()
    assert (sums == 2 * row + col + 100 * ((row < 5) & (col >= 2))).all()


SMALL = (("queue_depth: 4", "queue_depth: 1"), ("size: 64 KiB", "size: 1280 B"))
"""Every queue one deep, and a register file of two rows of 128 f32 and little more."""


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_blocks_larger_than_the_register_file_are_worked_on_in_strips(results, mode):
    x = np.random.default_rng(1).standard_normal((12, 128)).astype(np.float16)

    def kernel(tl, a, c):
        wide = tl.load(a).to("f32")
        powers = tl.exp(wide - tl.max(wide, axis=1))
        tl.store(c, powers / tl.sum(powers, axis=1))

    (found,) = results(kernel, x, outs=[((12, 128), "f32")], changes=SMALL, mode=mode)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def test_a_program_that_fits_in_no_strips_is_divided(results, simulate):
    def kernel(tl, a, c):
        x = tl.load(a)
        centred = x - tl.sum(x, axis=0) / 16  # by columns
        tl.store(c, centred / tl.max(tl.abs(centred), axis=1))  # by rows

    x = np.random.default_rng(2).standard_normal((16, 64), dtype=np.float32)
    (found,) = results(kernel, x, outs=[((16, 64), "f32")], changes=SMALL)
    centred = x.astype(np.float64) - x.sum(axis=0, dtype=np.float64) / 16
    np.testing.assert_allclose(found, centred / np.abs(centred).max(axis=1, keepdims=True), rtol=1e-4, atol=1e-6)
    run = simulate(kernel, (16, 64, "f32"), (16, 64, "f32"), changes=SMALL)
    assert kinds(run).count("vector") > 1
    assert len(run.traced(CommandComplete)) == len(run.plans)


def test_what_the_parts_of_a_program_stored_is_not_computed_again(results):
    """`more` lies in TCM between the parts, and the kernel can name it when the next program closes."""

    def kernel(tl, a, c, d):
        x = tl.load(a)
        more = x + 1
        both = tl.interleave(more, x)
        tl.store(c, both)
        tl.free(both)
        tl.store(d, more)

    x = np.random.default_rng(3).standard_normal((16, 16), dtype=np.float32)
    both, more = results(kernel, x, outs=[((16, 32), "f32"), ((16, 16), "f32")], changes=SMALL)
    assert (more == x + 1).all()
    assert (both == np.stack([x + 1, x], -1).reshape(16, 32)).all()


def test_a_scan_along_a_column_that_does_not_fit_is_refused_with_its_line(simulate):
    def kernel(tl, a, c):
        x = tl.load(a)
        tl.store(c, tl.cumsum(x, axis=0))

    with pytest.raises(KernelError) as caught:
        simulate(kernel, (512, 1, "f32"), (512, 1, "f32"), changes=SMALL)
    assert str(caught.value) == (
        f"test_vector_programs.py:{kernel.__code__.co_firstlineno + 2}: vector program: got values of 4096 bytes at a "
        "time, which no strip of rows or columns makes fit, needs at most the register file's 1280; use smaller "
        "blocks, or split the axis that is reduced, and combine the parts"
    )


def test_the_issue_of_a_program_waits_for_what_it_reads_with_a_scoreboard(simulate):
    def kernel(tl, a, b, c):
        x, y = tl.load(a), tl.load(b)
        tl.store(c, x + y)

    run = simulate(kernel, F16, F16, F16, changes=SCOREBOARD)
    loaded = run.times(1, 0)[0][2]
    assert run.times(2, 0)[0][0] == loaded + 4000  # taken when the second load is done


def test_a_tile_that_has_its_registers_passes_those_that_wait_for_them(results):
    """A program without inputs claims registers at its first MATH, and is back for others while a FETCH waits."""

    def kernel(tl, a, c, d):
        x, y = tl.load(a), tl.load(a)
        tl.wait(x)
        tl.wait(y)
        ones = tl.zeros((1, 64), "f32")
        for _ in range(5):
            ones = tl.exp(ones) * 0 + 1
        tl.free(y)
        tl.store(c, tl.dot(x, x))
        tl.store(d, ones)

    x = np.random.default_rng(4).integers(-4, 5, (8, 8)).astype(np.float32)
    few = ("size: 64 KiB", "size: 768 B")
    found, ones = results(kernel, x, outs=[((8, 8), "f32"), ((1, 64), "f32")], changes=(*SCOREBOARD, few))
    assert (found == x @ x).all()
    assert (ones == 1).all()


def test_a_computed_cycle_is_stored_and_its_tcm_is_held_to_the_end(simulate):
    def kernel(tl, a, c):
        x = tl.load(a)
        cycle = [tl.max(x, axis=1)]
        cycle.append(cycle)
        del cycle
        tl.store(c, x + 1)

    simulate(kernel, F16, F16)


def test_a_sum_of_dots_begins_with_zeros_that_nobody_computes(simulate):
    def kernel(tl, a, b, c):
        x, y = tl.load(a), tl.load(b)
        total = tl.zeros((16, 16), "f32")
        for _ in range(2):
            total = tl.dot(x, y, total)
        tl.store(c, total * 2.0)

    run = simulate(kernel, F16, F16, (16, 16, "f32"))
    assert kinds(run) == ["transfer", "transfer", "gemm", "gemm", "drain", "vector", "transfer"]
