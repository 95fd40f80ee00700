"""Main effects, computed by hand."""

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


def test_axes_that_move_together_are_not_told_apart() -> None:
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
