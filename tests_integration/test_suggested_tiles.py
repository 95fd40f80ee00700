"""A sample of benchmarks/validation/tiles.py: the tile that the scheduler chooses, against an exhaustive search."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "validation"))

import tiles  # type: ignore[import-not-found]  # a script beside the benchmarks

PRODUCTS = {(each.m, each.n, each.k): each for each in tiles.products()}


def test_there_are_as_many_products_as_the_docs_say() -> None:
    assert len(tiles.products()) == 104


@pytest.mark.parametrize("shape", [(1, 768, 768), (97, 101, 103), (128, 128, 64), (49, 384, 96)])
def test_the_chosen_tile_is_near_the_best(shape: tuple[int, int, int]) -> None:
    found = tiles.search(PRODUCTS[shape])
    assert found.ratio <= tiles.LIMIT
    assert found.n_simulated > 1, "a search that tries one tile finds nothing better"


def test_a_bad_tile_would_be_found_out() -> None:
    product = PRODUCTS[128, 768, 768]
    chosen_ps = tiles.simulated_ps(product, None)
    by_bytes_ps = tiles.simulated_ps(product, tiles.TileShape(128, 128, 256))
    assert by_bytes_ps > tiles.LIMIT * chosen_ps
