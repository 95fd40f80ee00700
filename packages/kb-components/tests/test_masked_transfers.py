"""What loads and stores with masks cost, every time computed by hand, and what their records say.

On the round chip, in picoseconds: a command takes 7000 to begin, a read or a write 34000 and 20 a byte.
"""

import numpy as np

from kb_messages import MemorySpace, Rectangle


def ragged(tl, a):
    mask = (tl.arange(16, 32) < 19)[:, None] & (tl.arange(16) < 12)[None, :]
    tl.store(a[16:32], tl.load(a[16:32], mask=mask, other=2), mask=mask)


def whole(tl, a):
    tl.load(a[0:16], mask=(tl.arange(16) < 16)[:, None], other=2)


def test_time_and_bytes_are_those_of_what_the_mask_chooses(simulate):
    run = simulate(ragged, (19, 16, "f16"))
    # 3 rows of 12 elements of 2 bytes each: 34000 + 72 x 20 = 35440; then 7000 until the store begins.
    assert run.times(0, 0) == [(7000, 7000, 42440, 42440)]
    assert run.times(1, 0) == [(49440, 49440, 84880, 84880)]
    assert run.end_ps == 84880
    for plan in run.plans:
        ((stage,),) = (tile.stages for tile in plan.tiles)
        memory = stage.params.memory
        assert (memory.rows, memory.row_nbytes, memory.stride) == (3, 24, 32)


def test_the_rest_of_the_tile_is_in_the_record_of_the_read(simulate):
    run = simulate(ragged, (19, 16, "f16"))
    operands = run.records[0, 0, 0].operands
    assert [each.role.name for each in operands] == ["SRC", "DST"] * 3
    assert [each.space for each in operands[::2]] == [MemorySpace.HBM, MemorySpace.IMMEDIATE, MemorySpace.IMMEDIATE]
    tile = operands[1].offset
    # 16 x 16 in TCM, rows of 32 bytes: 13 rows below the three, and 4 columns beside them.
    rectangles = [Rectangle(each.offset - tile, each.rows, each.row_nbytes, each.stride) for each in operands[1::2]]
    assert rectangles == [Rectangle(0, 3, 24, 32), Rectangle(3 * 32, 13, 32, 32), Rectangle(24, 3, 8, 32)]
    # Of the blob both take the first bytes: it has as many twos as the larger of them and more.
    assert [(each.owner, each.offset) for each in operands[2::2]] == [(0, 0), (0, 0)]


def test_a_mask_that_leaves_nothing_out_is_none(simulate):
    run = simulate(whole, (19, 16, "f16"))
    # 512 bytes: 34000 + 10240.
    assert run.times(0, 0) == [(7000, 7000, 51240, 51240)]
    assert len(run.records[0, 0, 0].operands) == 2


def test_masks_cost_the_same_without_a_log(simulate):
    assert simulate(ragged, (19, 16, "f16"), log=False).end_ps == 84880


def few_rows(tl, a, rows):
    tl.load(a[120:136], mask=(tl.arange(16) < rows)[:, None])


def test_a_ragged_edge_at_virtual_addresses_looks_its_own_pages_up(chip_host, mmu):
    ends = []
    for rows in (16, 3):
        host = chip_host(*mmu)
        mapped = host.map(host.tensor("a", np.zeros((256, 16), np.float16), "f16"))
        ends.append(host.launch(few_rows, mapped, rows).end_ps)
    # A page is 128 rows of 32 bytes. Rows 120 to 135 lie in two, 120 to 122 in one: a lookup and walk of 21000 less,
    # and 13 rows of 32 bytes.
    assert ends[0] - ends[1] == 21000 + 13 * 32 * 20
