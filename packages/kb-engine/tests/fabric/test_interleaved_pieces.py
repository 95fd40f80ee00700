"""Pieces of interleaved bytes, in each slice: counted run by run, wherever they begin."""

from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kb_engine.fabric.interleaved import InterleavedPath
from kb_messages import CountedPieces, Interleaving, Rectangle

OWNER = 3 << 38
STARTS = (5 << 38) + 128, 6 << 38, 7 << 38


def path_of(granule_nbytes, burst_nbytes):
    way = SimpleNamespace(hops=())
    slices = [SimpleNamespace(memory=SimpleNamespace(burst_nbytes=burst_nbytes), back=way, away=way) for _ in STARTS]
    interleaving = Interleaving(granule_nbytes=granule_nbytes, count=len(STARTS))
    region = SimpleNamespace(interleaving=interleaving, slices=STARTS)
    return InterleavedPath("dma", region, slices)


def wanted(pieces, granule_nbytes, burst_nbytes):
    """For each slice, its bytes, and the bytes that its runs count as."""
    found = {}
    for piece in pieces:
        for row in range(piece.rows):
            run = {}
            for byte in range(piece.row_nbytes):
                number, within = divmod(piece.base - OWNER + row * piece.stride + byte, granule_nbytes)
                at = STARTS[number % 3] + number // 3 * granule_nbytes + within
                run.setdefault(number % 3, []).append(at)
            for number, places in run.items():
                bursts = len({at // burst_nbytes for at in places})
                places_before, nbytes = found.get(number, ([], 0))
                found[number] = places_before + places, nbytes + bursts * burst_nbytes
    return {number: (sorted(places), nbytes) for number, (places, nbytes) in found.items()}


def bytes_of(pieces):
    return sorted(
        each.base + row * each.stride + byte
        for each in pieces
        for row in range(each.rows)
        for byte in range(each.row_nbytes)
    )


piece = st.builds(
    lambda base, rows, width, gap: Rectangle(OWNER + base, rows, width, width + gap),
    st.integers(0, 3000), st.integers(1, 6), st.integers(1, 300), st.sampled_from([0, 5, 84, 384, 500]),
)  # fmt: skip


@pytest.mark.parametrize(("granule_nbytes", "burst_nbytes"), [(128, 64), (64, 64), (96, 64)])
@settings(max_examples=30)
@example(pieces=[Rectangle(OWNER + 10, 2, 288, 288)], rounds=0)
@example(pieces=[Rectangle(OWNER + 10, 3, 192, 192)], rounds=1)
@given(pieces=st.lists(piece, min_size=1, max_size=3), rounds=st.integers(0, 4))
def test_each_run_counts_in_the_slices_that_it_lies_in(granule_nbytes, burst_nbytes, pieces, rounds):
    path = path_of(granule_nbytes, burst_nbytes)
    for by in (0, rounds * 3 * granule_nbytes):  # the second one may be moved from what was counted for the first
        given = [Rectangle(each.base + by, each.rows, each.row_nbytes, each.stride) for each in pieces]
        parts = path.parts(CountedPieces.of(tuple(given), burst_nbytes))
        numbers = {id(way): number for number, way in enumerate(path.slices)}
        found = {numbers[id(way)]: (bytes_of(part.pieces), part.nbytes) for way, part in parts}
        assert found == wanted(given, granule_nbytes, burst_nbytes)
        assert all(part.base == part.pieces[0].base for _, part in parts)
