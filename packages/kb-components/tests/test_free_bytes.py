"""A tile waits for bytes of the register file or of the tile buffers, and never for a certain place there."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_messages import MemorySpace, SubCommandDispatched, WaitReason

START, READ = 7000, 44240
FETCH, GEMM = 1000 + 1024 * 5, 46000
SLOW_ARRAY = ("clock_ghz: 1.0", "clock_ghz: 0.25")


def two_sizes(tl, a, b, c, d):
    tl.composite("gemm", a[0:16, 0:16], b, out=c, tile=(16, 16, 16))
    tl.composite("gemm", a, b, out=d, tile=(32, 16, 16))


SHAPES = (32, 16, "f16"), (16, 16, "f16"), (16, 16, "f16"), (32, 16, "f16")


def test_a_command_with_tiles_of_another_size_waits_for_no_registers(simulate):
    """The first tile holds an accumulator at 0 to 1024, where the second command's first slot is. 8 KiB have room."""
    run = simulate(two_sizes, *SHAPES, changes=(SLOW_ARRAY, ("size: 64 KiB", "size: 8 KiB")))
    second = run.records[1, 0, 2]
    read = START + 2 * READ + (READ + 512 * 20) + READ
    assert (second.t_ready_ps, second.t_start_ps) == (read, read)
    assert second.waits_ps[WaitReason.REGISTER_FILE] == 0
    assert read < START + 2 * READ + FETCH + 4 * GEMM  # the first tile is still multiplied
    check_registers(run)


def test_it_waits_where_the_bytes_are_not_there(simulate):
    """The tiles hold 2 KiB and 3.5 KiB: in 5 KiB there is no room for both."""
    run = simulate(two_sizes, *SHAPES, changes=(SLOW_ARRAY, ("size: 64 KiB", "size: 5 KiB")))
    stored = run.records[0, 0, 4].t_end_ps
    assert run.records[1, 0, 2].t_start_ps == stored
    assert run.records[1, 0, 2].waits_ps[WaitReason.REGISTER_FILE] == stored - run.records[1, 0, 2].t_ready_ps


def test_a_command_holds_no_more_than_it_has_cut(simulate):
    """Two accumulators, whatever the size of the register file: the third tile waits for the store of the first."""

    def kernel(tl, a, b, c):
        tl.composite("gemm", tl.load(a), tl.load(b), out=c, tile=(16, 16, 16))

    shapes = (64, 16, "f16"), (16, 16, "f16"), (64, 16, "f16")
    run = simulate(kernel, *shapes, changes=(SLOW_ARRAY,))
    starts = [run.times(2, tile)[0][1] for tile in range(4)]
    assert starts[:2] == [starts[0], starts[0] + FETCH]
    assert starts[2:] == [run.times(2, tile)[2][2] for tile in range(2)]
    check_registers(run)


def test_a_tile_of_another_size_waits_for_no_tile_buffer(simulate):
    """Tiles of 1 KiB and 1.5 KiB of inputs. In 3 KiB there is room for both, but not in the second command's slots."""
    run = simulate(two_sizes, *SHAPES, changes=(("input_kib: 64", "input_kib: 3"),))
    waits = [event.waits_ps for event in run.traced(SubCommandDispatched)]
    assert [wait.get("tile_buffer", 0) for wait in waits] == [0, 0]


@given(
    kib=st.integers(4, 9),
    tiles=st.lists(
        st.tuples(st.sampled_from([8, 16, 24]), st.sampled_from([8, 16]), st.integers(1, 40), st.booleans()),
        min_size=1,
        max_size=5,
    ),
    slow=st.booleans(),
)
@settings(max_examples=examples(40))
def test_tiles_of_any_sizes_end_and_share_no_register(simulate, kib, tiles, slow):
    def kernel(tl, a, b, *outputs):
        for (m, n, k, streams), out in zip(tiles, outputs, strict=False):
            tl.composite("gemm", a[:, 0:k], b[0:k, :], out=out, tile=(m, n, 16), b_stream=streams)

    changes = (("size: 64 KiB", f"size: {kib} KiB"), ("put_kib: 64", "put_kib: 4"), *((SLOW_ARRAY,) * slow))
    check_registers(simulate(kernel, (48, 40, "f16"), (40, 20, "f16"), *[(48, 20, "f16")] * 5, changes=changes))


def check_registers(run):
    """No byte belongs to two tiles at once: operands from the stage that writes them, accumulators up to the store."""
    claims = {}
    for (command, tile, _), record in sorted(run.records.items()):
        output = tile // run.plans[command].grid[2]
        for operand in record.operands:
            if operand.space is not MemorySpace.REG:
                continue
            is_sum = record.name in ("gemm", "store") and operand.role.name in ("OUT", "ACC", "SRC")
            key = (command, "sum", output) if is_sum else (command, tile, operand.offset)
            end = operand.offset + operand.rows * operand.stride
            known = claims.get(key, (operand.offset, end, record.t_start_ps, 0))
            assert known[:2] == (operand.offset, end)
            claims[key] = (*known[:3], record.t_end_ps)
    live = sorted(claims.values())
    for number, (_, end, since, until) in enumerate(live):
        for offset, _, other_since, other_until in live[number + 1 :]:
            if offset >= end:
                break
            assert other_until <= since or until <= other_since
