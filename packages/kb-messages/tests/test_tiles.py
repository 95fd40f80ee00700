import sys
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages_plans import copy_plan, operand, stage

from kb_messages.log.oplog import Role
from kb_messages.plans import tiles as tiles_module
from kb_messages.plans.plan import BufferNeeds, PipelinePlan
from kb_messages.plans.stages import (
    Axis,
    DmaParams,
    OperandTemplate,
    Place,
    Rectangle,
    Stage,
    StageTemplate,
    StageType,
    TilePlan,
    TransferParams,
    When,
    rectangle,
    rectangles_along_k,
)

MOVES = {StageType.DMA_READ: Role.SRC, StageType.DMA_WRITE: Role.DST}


def test_tiles_come_in_m_n_k_order_with_k_innermost() -> None:
    tiles = copy_plan(2, 2, 2).tiles
    assert [(tile.m, tile.n, tile.k) for tile in tiles] == [
        (0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1),
    ]  # fmt: skip
    assert [tile.tile_id for tile in tiles] == list(range(8))


def test_only_the_last_tile_over_k_has_the_last_stages() -> None:
    stages = [[each.stage_type for each in tile.stages] for tile in copy_plan(1, 1, 3).tiles]
    read, write = StageType.DMA_READ, StageType.DMA_WRITE
    assert stages == [[read], [read], [read, write]]


def test_indexing_gives_what_iterating_gives() -> None:
    plan = copy_plan(3, 2, 4)
    tiles = list(plan.tiles)
    assert [plan.tiles[index] for index in range(len(plan.tiles))] == tiles
    assert [plan.tiles[index - 24] for index in range(24)] == tiles
    assert plan.tiles[5:20:3] == tiles[5:20:3]
    assert plan.tiles[::-1] == tiles[::-1]
    assert plan.tiles[20:99] == tiles[20:]


@pytest.mark.parametrize("index", [24, -25])
def test_a_tile_outside_the_plan_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError, match=f"^tile {index} of a plan of 24$"):
        copy_plan(3, 2, 4).tiles[index]


def test_length_and_indexing_of_a_huge_plan_compute_one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[tuple[tuple[int, int, int], int]] = []

    def counted(operand: OperandTemplate, first: tuple[int, int, int], end: int) -> Iterator[Rectangle]:
        computed.append((first, end))
        return rectangles_along_k(operand, first, end)

    monkeypatch.setattr(tiles_module, "rectangles_along_k", counted)
    plan = copy_plan(1000, 1000, 1000)
    assert len(plan.tiles) == plan.n_tiles == 10**9
    assert computed == []
    last = plan.tiles[-1]
    assert computed == [((999, 999, 999), 1000)] * 2
    assert (last.tile_id, last.m, last.n, last.k, len(last.stages)) == (10**9 - 1, 999, 999, 999, 2)


@pytest.mark.parametrize(("row", "col"), [(0, 2), (2, 1), (2, None), (None, 2), (0, 1), (2, 2)])
def test_rectangles_along_k_are_those_of_the_tiles(row: int | None, col: int | None) -> None:
    rows, cols = Axis(dimension=row, total=19, tile=4), Axis(dimension=col, total=18, tile=4)
    each = operand(Role.SRC, Place.MEMORY, rows, cols, 64)
    for first in range(5):
        for end in range(first + 1, 6):
            expected = [rectangle(each, (3, 2, k)) for k in range(first, end)]
            assert list(rectangles_along_k(each, (3, 2, first), end)) == expected


def test_iterating_and_indexing_one_sequence_in_turn_changes_no_tile() -> None:
    rows, cols = Axis(dimension=0, total=4, tile=2), Axis(dimension=1, total=4, tile=2)
    read = stage(StageType.DMA_READ, When.EVERY_TILE, operand(Role.SRC, Place.MEMORY, rows, cols, 64))
    plan = PipelinePlan(kind="bias", grid=(2, 2, 4), stages=(read,), buffers=BufferNeeds())
    expected = list(plan.tiles)
    tiles = plan.tiles
    assert [tiles[index] for index in range(16)] == expected
    assert list(tiles) == expected
    assert [tiles[index] for index in range(16)] == expected


def axes(data: st.DataObject, grid: tuple[int, int, int]) -> list[Axis]:
    """A side for each dimension of the grid, its last tile ragged or not, and one that follows none."""
    sides = []
    for dimension, count in enumerate(grid):
        tile = data.draw(st.integers(1, 4))
        total = count * tile - data.draw(st.integers(0, tile - 1))
        sides.append(Axis(dimension=dimension, total=total, tile=tile))
    return [*sides, Axis(dimension=None, total=3, tile=3)]


@pytest.mark.parametrize("kept", [1 << 16, 5, 0])
@given(data=st.data())
def test_tiles_are_those_that_every_place_has_by_itself(kept: int, data: st.DataObject) -> None:
    grid = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5)))
    sides = axes(data, grid)
    stages = [stage(StageType.FETCH, When.EVERY_TILE, operand(Role.SRC, Place.MEMORY, sides[0], sides[1], 64))]
    for _ in range(data.draw(st.integers(1, 4))):
        kind, when = data.draw(st.sampled_from(list(MOVES))), data.draw(st.sampled_from(When))
        rows, cols = data.draw(st.sampled_from(sides)), data.draw(st.sampled_from(sides))
        stages.append(stage(kind, when, operand(MOVES[kind], Place.MEMORY, rows, cols, 64)))
    plan = PipelinePlan(kind="any", grid=grid, stages=tuple(stages), buffers=BufferNeeds())

    def stage_at(template: StageTemplate, place: tuple[int, int, int]) -> Stage:
        (memory,) = template.operands
        moved = rectangle(memory, place)
        if template.stage_type is StageType.FETCH:
            return Stage(StageType.FETCH, "pe0", TransferParams(nbytes=moved.nbytes))
        return Stage(template.stage_type, "pe0", DmaParams(moved))

    places = list(product(*map(range, grid)))
    expected = [
        TilePlan(number, *place, tuple(stage_at(each, place) for each in stages if each.when.holds(place[2], grid[2])))
        for number, place in enumerate(places)
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tiles_module, "_MAX_KNOWN_STAGES", kept)
        assert list(plan.tiles) == expected
        assert [plan.tiles[number] for number in range(len(places))] == expected
        assert list(plan.tiles) == expected
    elsewhere = data.draw(st.permutations(range(0, 4096 * len(stages), 4096)))
    for moved in (plan.at(elsewhere), plan.on("pe1", elsewhere)):
        at_home = [tuple(moved.tiles_at(given)) for given in (None, plan.addresses)]
        assert at_home == [tuple(moved.tiles), tuple(moved.at(plan.addresses).tiles)]


def reads_of(a: tuple[int | None, int], grid: tuple[int, int, int]) -> dict[tuple[int, int, int], int]:
    """The identity of every tile's read of an operand whose rows and columns follow dimensions *a*."""
    rows, cols = (Axis(dimension=each, total=grid[each] if each is not None else 1, tile=1) for each in a)
    read = stage(StageType.DMA_READ, When.EVERY_TILE, operand(Role.SRC, Place.MEMORY, rows, cols, 64))
    tiles = list(PipelinePlan(kind="read", grid=grid, stages=(read,), buffers=BufferNeeds()).tiles)
    return {(tile.m, tile.n, tile.k): number for number, tile in zip(same(tiles), tiles, strict=True)}


def same(tiles: list[TilePlan]) -> list[int]:
    """For each tile, the number of the first that has the very same first stage."""
    first: dict[int, int] = {}
    return [first.setdefault(id(tile.stages[0]), number) for number, tile in enumerate(tiles)]


def test_reads_that_come_again_are_kept_and_others_are_not() -> None:
    along_m, along_n, along_both = (reads_of(a, (2, 3, 2)) for a in ((0, 2), (1, 2), (0, 1)))
    assert all(along_m[m, n, k] == along_m[m, 0, k] for m, n, k in along_m)
    assert len(set(along_m.values())) == 2 * 2
    assert all(along_n[m, n, k] == along_n[0, n, k] for m, n, k in along_n)
    assert len(set(along_n.values())) == 3 * 2
    assert len(set(along_both.values())) == 2 * 3 * 2


@pytest.mark.parametrize(("a", "grid"), [((0, 2), (3, 1, 4)), ((1, 2), (1, 3, 4)), ((0, 1), (3, 3, 4))])
def test_reads_that_never_come_again_are_gone_with_their_tiles(a: tuple[int, int], grid: tuple[int, int, int]) -> None:
    rows, cols = (Axis(dimension=each, total=grid[each], tile=1) for each in a)
    read = stage(StageType.DMA_READ, When.EVERY_TILE, operand(Role.SRC, Place.MEMORY, rows, cols, 64))
    tiles = PipelinePlan(kind="read", grid=grid, stages=(read,), buffers=BufferNeeds()).tiles
    counted = [sys.getrefcount(tile.stages[0]) for tile in tiles]
    tile = tiles[0]
    assert set(counted) == {sys.getrefcount(tile.stages[0])}


def test_a_plan_keeps_no_more_reads_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles_module, "_MAX_KNOWN_STAGES", 4)
    assert len(set(reads_of((1, 2), (2, 1, 4)).values())) == 4
    assert len(set(reads_of((1, 2), (2, 1, 5)).values())) == 2 * 5
    # Of three lanes of two, the third makes it forget the others.
    assert len(set(reads_of((1, 2), (2, 2, 2)).values())) == 2 * 2
    assert len(set(reads_of((1, 2), (2, 3, 2)).values())) == 2 * 3 * 2


def test_stages_alike_are_one_object_at_every_edge() -> None:
    side = Axis(dimension=None, total=3, tile=3)
    fetch = stage(StageType.FETCH, When.EVERY_TILE, operand(Role.SRC, Place.REGISTERS, side, side, 6))
    tiles = list(PipelinePlan(kind="fetch", grid=(2, 2, 3), stages=(fetch,), buffers=BufferNeeds()).tiles)
    assert set(same(tiles)) == {0}


def test_tiles_share_the_stages_that_they_agree_on() -> None:
    first, second, _ = copy_plan(1, 3, 1).tiles
    assert first.stages[0] is second.stages[0]
    assert first.stages[1] != second.stages[1]


def test_a_plan_with_more_stages_than_are_kept_has_the_right_ones() -> None:
    plan = copy_plan(300, 300, 1)
    base = plan.stages[1].operands[0].base
    for tile in plan.tiles:
        assert tile.stages[1].params == DmaParams(memory=Rectangle(base + tile.m * 4 * 64 + tile.n * 2 * 2, 4, 4, 64))
