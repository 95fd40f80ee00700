"""Main effects, computed by hand."""

import random
import tracemalloc
from math import log

import numpy as np
import pytest

from kb_cli.sweep.sensitivity import sensitivity

AXES = {"bw": ["1", "2"], "tile": ["a", "b", "c"]}
GRID = [{"bw": bw, "tile": tile} for bw in AXES["bw"] for tile in AXES["tile"]]


def test_axes_that_multiply() -> None:
    found = sensitivity(AXES, GRID, [800, 400, 200, 400, 200, 100])
    assert [effect.axis for effect in found.effects] == ["tile", "bw"]
    assert found.effects[0].ratios == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.25})
    assert found.effects[0].swing == pytest.approx(4.0)
    assert found.effects[1].ratios == pytest.approx({"1": 1.0, "2": 0.5})
    assert found.explained == pytest.approx(1.0)


def test_a_ratio_is_the_geometric_mean_over_the_other_axes() -> None:
    found = sensitivity(
        {"x": ["1", "2"], "y": ["1", "2"]}, [{"x": x, "y": y} for x in "12" for y in "12"], [1, 1, 1, 16]
    )
    assert found.effects[0].ratios["2"] == pytest.approx(4.0), "the mean of 1 and 16"
    assert found.explained == pytest.approx(2 / 3), "of logs 0 0 0 1, each axis explains a third of the variance"


def test_effects_of_axes_that_move_together_are_unknown() -> None:
    points = [{"x": x, "y": x, "z": z} for x in "12" for z in "12"]
    found = sensitivity({"x": ["1", "2"], "y": ["1", "2"], "z": ["1", "2"]}, points, [10, 20, 30, 60])
    swings = {effect.axis: effect.swing for effect in found.effects}
    assert swings["x"] is None
    assert swings["y"] is None
    assert swings["z"] == pytest.approx(2.0)


def test_missing_points_and_values() -> None:
    found = sensitivity(AXES, [GRID[0], GRID[1], GRID[3]], [800, 400, 400])
    by_axis = {effect.axis: effect.ratios for effect in found.effects}
    assert by_axis["tile"] == {"a": 1.0, "b": pytest.approx(0.5), "c": None}
    assert by_axis["bw"]["2"] == pytest.approx(0.5)
    assert sensitivity(AXES, [], []).explained is None
    assert sensitivity(AXES, GRID, [7] * 6).explained is None


@pytest.mark.parametrize("seed", range(20))
def test_ratios_equal_a_least_squares_fit_by_points(seed: int) -> None:
    """The reference has a row for each point and a column for each value."""
    source = random.Random(seed)
    axes = {axis: [str(value) for value in range(source.randint(2, 5))] for axis in "xyz"}
    grid = [{"x": x, "y": y, "z": z} for x in axes["x"] for y in axes["y"] for z in axes["z"]]
    points = [*source.sample(grid, len(grid) // 2), grid[0], *grid[-3:]]
    latencies_ps = [source.randint(1, 10**9) for _ in points]
    columns = [(axis, value) for axis, values in axes.items() for value in values[1:]]
    design = np.array([[1.0, *(point[axis] == value for axis, value in columns)] for point in points])
    assert np.linalg.matrix_rank(design) == design.shape[1], "the points determine all values"
    wanted, *_ = np.linalg.lstsq(design, np.log(latencies_ps))
    found = {effect.axis: effect.ratios for effect in sensitivity(axes, points, latencies_ps).effects}
    for (axis, value), number in zip(columns, wanted[1:], strict=True):
        assert log(found[axis][value] or 0) == pytest.approx(number, abs=1e-9)


def test_ten_thousand_values_take_no_matrix_of_points_by_values() -> None:
    """That matrix would have 2.4 GB."""
    axes = {"x": [str(value) for value in range(10_000)], "y": ["a", "b", "c"]}
    points = [{"x": x, "y": y} for x in axes["x"] for y in axes["y"]]
    latencies_ps = [(1 + number // 3) * 1000 * (1, 2, 8)[number % 3] for number in range(len(points))]
    tracemalloc.start()
    found = sensitivity(axes, points, latencies_ps)
    nbytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert nbytes < 50 << 20
    assert [effect.axis for effect in found.effects] == ["x", "y"]
    assert found.effects[0].ratios["9999"] == pytest.approx(10_000)
    assert found.effects[1].ratios == pytest.approx({"a": 1.0, "b": 2.0, "c": 8.0})
    assert found.explained == pytest.approx(1.0)


def test_effects_of_two_axes_of_very_many_values_are_not_computed() -> None:
    axes = {axis: [str(value) for value in range(5000)] for axis in "xy"}
    points = [{"x": str(number), "y": str(number * 7 % 5000)} for number in range(5000)]
    found = sensitivity(axes, points, [1 + number for number in range(5000)])
    assert [effect.swing for effect in found.effects] == [None, None]
    assert found.explained is None
