"""What holds of every run, whatever the shapes, tiles, queues and buffers."""

from collections import defaultdict
from itertools import combinations, pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb_messages.address import MemorySpace
from kb_messages.commands import Matrix
from kb_messages.dtypes import DType
from kb_messages.oplog import Role
from kb_messages.plan import StageType, TileShape
from kb_messages.trace import CommandComplete, CommandSubmitted, FabricTransfer
from kb_plans import count, generate_gemm_plan

side = st.integers(1, 40)


@st.composite
def problems(draw):
    """Shapes, one or two composites on them, and a chip whose buffers are small multiples of the smallest legal."""
    m, n, k = draw(side), draw(side), draw(side)
    dtype = draw(st.sampled_from([DType.F16, DType.F32, DType.I8]))
    out = dtype if dtype.is_float else DType.I32
    matrices = Matrix.packed(m, k, dtype), Matrix.packed(k, n, dtype), Matrix.packed(m, n, out)
    composites = []
    for _ in range(draw(st.integers(1, 2))):
        # Not so small that there are more than some 60 tiles.
        tile = TileShape(*(draw(st.integers(-(-size // 4), size)) for size in (m, n, k)))
        composites.append((tile, draw(st.booleans()), draw(st.booleans()), draw(st.booleans())))
    needs = [generate_gemm_plan(*matrices, tile, "").buffers for tile, *_ in composites]
    copies = st.integers(1, 3)
    registers = draw(copies) * max(each.register_nbytes + each.accumulator_nbytes for each in needs)
    inputs = draw(copies) * max(-(-each.input_nbytes // 1024) for each in needs)
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
    for tile, a_pinned, b_pinned, out_pinned in composites:
        target = None if out_pinned else c
        tl.composite("gemm", x if a_pinned else a, y if b_pinned else b, out=target, tile=tile)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_laws_of_a_run(simulate, problem):
    a, b, c, composites, changes = problem
    run = simulate(lambda tl, a, b, c: kernel(tl, a, b, c, composites), a, b, c, changes=changes)
    check_laws(run)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
                opened[place] = fetched.t_start_ps
            if operand.release:
                lives[operand.owner].append((place[2:], opened.pop(place), record.t_end_ps))
    for place, begun in opened.items():  # what a load or a pinned result holds stays until the kernel ends
        lives[place[1]].append((place[2:], begun, run.end_ps))
    assert lives
    for intervals in lives.values():
        for (one, begun, ended), (other, other_begun, other_ended) in combinations(intervals, 2):
            if begun < other_ended and other_begun < ended:
                assert not bytes_of(one) & bytes_of(other)


def bytes_of(rectangle):
    """A bit for every byte that the rectangle covers."""
    offset, rows, row_nbytes, stride = rectangle
    row = (1 << row_nbytes) - 1
    return sum(row << offset + number * stride for number in range(rows))
