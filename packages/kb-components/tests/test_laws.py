"""What holds of every run, whatever the shapes, tiles, queues and buffers."""

from collections import defaultdict
from itertools import combinations, pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_messages import (
    CommandComplete,
    CommandSubmitted,
    DType,
    EpilogueOp,
    EpilogueScope,
    FabricTransfer,
    GemmCommand,
    LoopOrder,
    MathAttributes,
    MathCommand,
    MathInput,
    Matrix,
    MemorySpace,
    Role,
    StageType,
    TileShape,
)
from kb_plans import count, generate_gemm_plan, generate_math_plan

side = st.integers(1, 40)


def pins_and_order(draw):
    """Which of a and b are pinned, and a loop order that keeps none of these."""
    order = draw(st.sampled_from([*LoopOrder]))
    a_pinned = draw(st.booleans()) and order is not LoopOrder.INPUT_STATIONARY
    return (a_pinned, draw(st.booleans()) and order is not LoopOrder.WEIGHT_STATIONARY), order


@st.composite
def problems(draw):
    """Shapes, one or two composites on them, and a chip whose buffers are small multiples of the smallest legal."""
    m, n, k = draw(side), draw(side), draw(side)
    dtype = draw(st.sampled_from([DType.F16, DType.F32, DType.I8]))
    out = dtype if dtype.is_float else DType.I32
    a, b, c = Matrix.packed(m, k, dtype), Matrix.packed(k, n, dtype), Matrix.packed(m, n, out)
    composites = []
    for _ in range(draw(st.integers(1, 2))):
        # Not so small that there are more than some 60 tiles.
        tile = TileShape(*(draw(st.integers(-(-size // 4), size)) for size in (m, n, k)))
        composites.append((tile, *pins_and_order(draw), draw(st.booleans())))
    needs = [
        generate_gemm_plan(GemmCommand(a=a, b=b, out=c, tile=tile, loop_order=order), "").buffers
        for tile, _, order, _ in composites
    ]
    copies = st.integers(1, 3)
    registers = draw(copies) * max(each.register_nbytes + each.accumulator_nbytes for each in needs)
    inputs = draw(copies) * max(-(-each.least_input_nbytes // 1024) for each in needs)
    outputs = draw(copies) * max(-(-each.output_nbytes // 1024) for each in needs)
    changes = (
        ("size: 64 KiB", f"size: {registers + draw(st.integers(0, 700))} B"),
        ("input_kib: 64", f"input_kib: {inputs}"),
        ("output_kib: 64", f"output_kib: {outputs}"),
        ("submission_depth: 8", f"submission_depth: {draw(st.integers(1, 2))}"),
        ("clock_ghz: 1.0", f"clock_ghz: {draw(st.sampled_from([0.1, 0.5, 4.0]))}"),
        *((f"{block}, queue_depth: 4", f"{block}, queue_depth: {draw(copies)}")
          for block in ("pe_dma", "pe_fetch_store", "pe_gemm")),
    )  # fmt: skip
    return (m, k, str(dtype)), (k, n, str(dtype)), (m, n, str(out)), composites, changes


def kernel(tl, a, b, c, composites):
    x, y = tl.load(a), tl.load(b)
    for tile, (a_pinned, b_pinned), order, out_pinned in composites:
        target = None if out_pinned else c
        left, right = x if a_pinned else a, y if b_pinned else b
        tl.composite("gemm", left, right, out=target, tile=tile, loop_order=order)


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_laws_of_a_run(simulate, problem):
    a, b, c, composites, changes = problem
    run = simulate(lambda tl, a, b, c: kernel(tl, a, b, c, composites), a, b, c, changes=changes)
    check_laws(run)


OPS = ("dequant", "scale", "bias", "column", "residual", "relu", "cast")


@st.composite
def problems_with_math(draw):
    """As `problems`, with epilogues, functions, transposed operands, b that streams, GEMM and MATH that take turns."""
    m, n, k = draw(side), draw(side), draw(side)
    dtype = draw(st.sampled_from([DType.F16, DType.F32]))
    a, b, c = Matrix.packed(m, k, dtype), Matrix.packed(k, n, dtype), Matrix.packed(m, n, dtype)
    commands, needs = [], []
    for _ in range(draw(st.integers(1, 3))):
        tile = TileShape(*(draw(st.integers(-(-size // 3), size)) for size in (m, n, k)))
        pinned, order = pins_and_order(draw)
        if draw(st.integers(0, 3)):
            ops = draw(st.lists(st.sampled_from(OPS), max_size=3))
            epilogue = tuple(planned(op, m, n, dtype) for op in ops)
            gemm = GemmCommand(a=a, b=b, out=c, tile=tile, epilogue=epilogue, loop_order=order)
            needs.append(generate_gemm_plan(gemm, "").buffers)
            turned = draw(st.booleans()), draw(st.booleans())
            streams = not pinned[1] and order is not LoopOrder.WEIGHT_STATIONARY and draw(st.booleans())
            commands.append(("gemm", tile, pinned, (ops, turned, streams, order)))
        else:
            flat = TileShape(tile.m, tile.n, 1)
            inputs = MathInput(matrix=c), MathInput(matrix=Matrix.packed(1, n, dtype))
            add = MathCommand(math=MathAttributes(op="add"), inputs=inputs, out=c, tile=flat)
            needs.append(generate_math_plan(add, "").buffers)
            commands.append(("add", flat, pinned, ()))
    copies, slots = st.integers(1, 3), draw(st.sampled_from(["shared", "independent"]))
    registers = draw(copies) * max(each.register_nbytes + each.accumulator_nbytes for each in needs)
    changes = (
        ("size: 64 KiB", f"size: {registers} B"),
        ("input_kib: 64", f"input_kib: {draw(copies) * max(-(-each.least_input_nbytes // 1024) for each in needs)}"),
        ("output_kib: 64", f"output_kib: {draw(copies) * max(-(-each.output_nbytes // 1024) for each in needs)}"),
        ("submission_depth: 8", f"submission_depth: {draw(st.integers(1, 2))}, compute_slots: {slots}"),
        ("clock_ghz: 1.0", f"clock_ghz: {draw(st.sampled_from([0.1, 4.0]))}"),
        *((f"{block}, queue_depth: 4", f"{block}, queue_depth: {draw(copies)}")
          for block in ("pe_dma", "pe_fetch_store", "pe_gemm", "pe_math")),
    )  # fmt: skip
    shapes = [(*shape, str(dtype)) for shape in ((m, k), (k, n), (m, n), (1, n), (k, m), (n, k), (m, 1))]
    return shapes, commands, changes


def planned(op, m, n, dtype):
    scope = EpilogueScope.K_TILE if op in ("dequant", "scale") else EpilogueScope.OUTPUT_TILE
    operand = {"bias": (1, n), "dequant": (1, n), "residual": (m, n), "column": (m, 1)}.get(op)
    return EpilogueOp(
        op="bias" if op == "column" else op,
        scope=scope,
        operand=operand and Matrix.packed(*operand, dtype),
        scalars=(2.0,) if op == "scale" else (),
        dtype=DType.F16 if op == "cast" else None,
    )


def kernel_with_math(tl, a, b, c, d, turned_a, turned_b, column, commands):
    x, y, row = (tl.load(a), tl.load(turned_a)), (tl.load(b), tl.load(turned_b)), tl.load(d)
    for number, (kind, tile, (a_pinned, b_pinned), how) in enumerate(commands):
        if kind == "add":
            tl.composite("add", c, row if a_pinned else d, out=c, tile=tile)
            continue
        ops, turned, b_stream, order = how
        left = (x if a_pinned else (a, turned_a))[turned[0]]
        right = (y if b_pinned else (b, turned_b))[turned[1]]
        operand = d if number % 2 else row
        made = {
            "dequant": tl.dequant(operand, scope="k_tile"),
            "scale": tl.scale(2.0, scope="k_tile"),
            "bias": tl.bias(operand),
            "column": tl.bias(column),
            "residual": tl.residual(c),
            "relu": tl.relu(),
            "cast": tl.cast("f16"),
        }
        left, right = left.T if turned[0] else left, right.T if turned[1] else right
        epilogue = [made[op] for op in ops]
        more = {"epilogue": epilogue, "b_stream": b_stream, "loop_order": order}
        tl.composite("gemm", left, right, out=c, tile=tile, **more)


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow])
@given(problems_with_math())
def test_laws_of_a_run_with_math(simulate, problem):
    shapes, commands, changes = problem
    run = simulate(lambda tl, *tensors: kernel_with_math(tl, *tensors, commands), *shapes, changes=changes)
    check_laws(run)
    if run.engine.pes["sip0.cube0.pe0"].scheduler.spec.compute_slots == "shared":
        check_compute_slot(run)


def check_compute_slot(run):
    """GEMM and MATH never run at once."""
    computed = [(each.t_start_ps, each.t_end_ps) for each in run.records.values() if each.name in ("gemm", "math")]
    for first, second in pairwise(sorted(computed)):
        assert first[1] <= second[0]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(problems(), st.sampled_from([(0, 1), (0, 3), (3, 1, 2)]))
def test_laws_of_a_run_on_several_pes(simulate, two_halves, problem, pes):
    a, b, c, composites, changes = problem
    run = simulate(
        lambda tl, a, b, c: kernel(tl, a, b, c, composites), a, b, c, changes=(*two_halves, *changes), pes=pes
    )
    assert len(run.plans) == len(pes) * (2 + len(composites))
    check_laws(run)


def check_laws(run):
    check_completion(run)
    check_bytes(run)
    check_one_at_a_time(run)
    check_buffers(run)


def check_completion(run):
    """Every tile of every command has all its records, and commands are submitted and completed once."""
    for command, plan in enumerate(run.plans):
        expected = {(command, tile.tile_id, number) for tile in plan.tiles for number in range(len(tile.stages))}
        assert {key for key in run.records if key[0] == command} == expected
    for kind in (CommandSubmitted, CommandComplete):
        assert sorted(event.command_seq for event in run.traced(kind)) == list(range(len(run.plans)))


def check_bytes(run):
    """What crossed the fabric is what the closed form says the plans move."""
    totals = [count(plan).nbytes for plan in run.plans]
    read = sum(each.get(StageType.DMA_READ, 0) for each in totals)
    written = sum(each.get(StageType.DMA_WRITE, 0) for each in totals)
    slices = [block for node_id, block in run.engine.components.items() if ".hbm" in node_id]
    assert sum(each.read_nbytes for each in slices) == read
    assert sum(each.written_nbytes for each in slices) == written
    assert sum(event.nbytes for event in run.traced(FabricTransfer)) == read + written


def check_one_at_a_time(run):
    """A block serves one tile of a kind at a time, and keeps it until it is let go; the TCM port serves one in all."""
    services = defaultdict(list)
    for record in run.records.values():
        services[record.component, record.name].append((record.t_start_ps, record.t_out_ps))
        if record.name in ("fetch", "store"):
            services[record.component].append((record.t_start_ps, record.t_end_ps))
    for intervals in services.values():
        for first, second in pairwise(sorted(intervals)):
            assert first[1] <= second[0]


def check_buffers(run):
    """From its first write to its last use, no buffer shares a byte with another live one of its memory."""
    lives = defaultdict(list)
    opened = {}
    for key, record in sorted(run.records.items(), key=lambda item: item[0]):
        for operand in record.operands:
            if operand.space == MemorySpace.HBM:
                continue
            place = (key[0], operand.owner, operand.offset, operand.rows, operand.row_nbytes, operand.stride)
            accumulates = operand.role is Role.OUT and place in opened
            if operand.role.is_write and not accumulates:
                assert place not in opened
                # An accumulator is claimed together with the registers of its first tile, at the fetch.
                fetched = run.records[key[0], key[1], key[2] - 1] if operand.role is Role.OUT else record
                opened[place] = record.t_end_ps if retypes(record, operand) else fetched.t_start_ps
            if operand.release:
                lives[operand.owner].append((place[2:], opened.pop(place), record.t_end_ps))
    for place, begun in opened.items():  # what a load or a pinned result holds stays until the kernel ends
        lives[place[1]].append((place[2:], begun, run.end_ps))
    assert lives
    for intervals in lives.values():
        for (one, begun, ended), (other, other_begun, other_ended) in combinations(intervals, 2):
            if begun < other_ended and other_begun < ended:
                assert not bytes_of(one) & bytes_of(other)


def retypes(record, operand):
    """Whether a result takes the place of an input of another type."""
    return any(each.offset == operand.offset for each in record.operands if each.role is Role.IN)


def bytes_of(rectangle):
    """A bit for every byte that the rectangle covers."""
    offset, rows, row_nbytes, stride = rectangle
    row = (1 << row_nbytes) - 1
    return sum(row << offset + number * stride for number in range(rows))
