"""A sample of benchmarks/validation/tiles.py: the tile that the scheduler chooses, against an exhaustive search."""

import sys
from pathlib import Path

import pytest
from sampled_cases import sampled

from kb_messages import BenchmarkError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "validation"))

import tiles  # type: ignore[import-not-found]  # a script beside the benchmarks

ISSUE_AND_DECODE_PS = 12_000
"""`issue_ns: 4` of PE_CPU, and `command_ns: 8` of PE_SCHEDULER."""


def test_there_are_as_many_products_as_the_docs_say() -> None:
    assert len(tiles.products()) == 104


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("M,N\n64,64\n", ": got no column K, needs columns M, N and K"),
        ("M,N,K\n64,64,x\n", ": K: got 'x', needs integers of at least 1"),
        ("M,N,K\n64,64\n", ":2: got 2 cells, needs 3, one for each column"),
    ],
)
def test_a_file_without_shapes_is_refused_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "shapes.csv"
    file.write_text(text)
    with pytest.raises(BenchmarkError) as error:
        tiles.products_of(file)
    assert str(error.value) == f"{file}{said}"


@pytest.mark.parametrize(
    "shape",
    sampled(
        [
            *((1, 768, 768), (97, 101, 103), (128, 128, 64), (3136, 384, 96)),
            *((49, 384, 96), (128, 1000, 128), (3136, 64, 64)),
        ],
        3,
    ),
)
def test_the_chosen_tile_is_near_the_best(shape: tuple[int, int, int]) -> None:
    found = tiles.search(tiles.Product("", *shape))
    assert found.ratio <= tiles.LIMIT
    assert found.n_simulated > 1, "a search that tries one tile finds nothing better"


def test_a_bad_tile_would_be_found_out() -> None:
    product = tiles.Product("", 128, 768, 768)
    chosen_ps = tiles.simulated_ps(product, None)
    by_bytes_ps = tiles.simulated_ps(product, tiles.TileShape(128, 128, 256))
    assert by_bytes_ps > tiles.LIMIT * chosen_ps


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((3136, 64, 64), (784, 64, 64)),  # a pipeline of four tiles
        ((999, 333, 111), (256, 167, 111)),  # operand registers for one tile, so fetches come before stores
        ((1000, 1000, 128), (250, 192, 128)),  # output buffers that wait for writes
        ((300, 500, 700), (256, 250, 64)),  # ragged edges along every side
        ((1024, 1600, 3072), (256, 192, 96)),  # 1,152 tiles
    ],
)
def test_an_estimate_is_what_the_simulation_says(shape: tuple[int, int, int], tile: tuple[int, int, int]) -> None:
    product, shape_of_tile = tiles.Product("", *shape), tiles.TileShape(*tile)
    simulated_ps = tiles.simulated_ps(product, shape_of_tile)
    found = tiles.estimated(product, shape_of_tile)
    assert found.latency_ps + ISSUE_AND_DECODE_PS == pytest.approx(simulated_ps, rel=0.001)
