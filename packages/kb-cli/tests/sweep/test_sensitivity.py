"""Main effects, computed by hand."""

import random
import tracemalloc
from math import exp, log

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


def test_only_points_that_differ_in_one_axis_are_compared() -> None:
    """Value 2 of x ran with y = 2 alone, where all is ten times slower. A mean over all points would say 7.3 times."""
    points = [{"x": "1", "y": "1"}, {"x": "1", "y": "2"}, {"x": "2", "y": "2"}]
    found = sensitivity({"x": ["1", "2"], "y": ["1", "2"]}, points, [100, 1000, 800])
    x = next(effect for effect in found.effects if effect.axis == "x")
    assert x.ratios == {"1": 1.0, "2": pytest.approx(0.8)}
    assert x.pairs == {"1": 0, "2": 1}
    assert x.swing == pytest.approx(1.25)


def test_pairs_are_not_chained_over_other_values() -> None:
    """Values 2 and 3 ran beside value 1 at different settings of y, and never beside each other.

    A least squares fit would give 3 a ratio of 2 * 3, through value 2 and the effect of y.
    """
    points = [{"x": x, "y": y} for x, y in (("1", "a"), ("2", "a"), ("2", "b"), ("3", "b"))]
    found = sensitivity({"x": ["1", "2", "3"], "y": ["a", "b"]}, points, [100, 200, 500, 1500])
    x = next(effect for effect in found.effects if effect.axis == "x")
    assert x.ratios == {"1": 1.0, "2": pytest.approx(2.0), "3": None}
    assert x.swing == pytest.approx(2.0)


def test_the_swing_compares_the_slowest_and_the_fastest_where_both_ran() -> None:
    """Ratios 0.5 and 2 come from different settings of y. Where values 2 and 3 both ran, one is three times slower."""
    points = [{"x": x, "y": y} for x, y in (("1", "a"), ("2", "a"), ("1", "b"), ("3", "b"), ("2", "c"), ("3", "c"))]
    found = sensitivity({"x": ["1", "2", "3"], "y": ["a", "b", "c"]}, points, [100, 50, 100, 200, 10, 30])
    x = next(effect for effect in found.effects if effect.axis == "x")
    assert x.ratios == {"1": 1.0, "2": pytest.approx(0.5), "3": pytest.approx(2.0)}
    assert x.swing == pytest.approx(3.0)


def test_points_that_failed_have_no_part_and_are_counted() -> None:
    """The failed point (2, a) takes its partner (1, a) with it: the ratio of 2 is that at b and c, 0.5 and 0.125."""
    points = [{"bw": bw, "tile": tile} for bw in "12" for tile in "abc"]
    found = sensitivity(AXES, points, [10, 800, 800, None, 400, 100])
    by_axis = {effect.axis: effect for effect in found.effects}
    assert by_axis["bw"].ratios == {"1": 1.0, "2": pytest.approx(0.25)}, "the mean of 1/2 and 1/8"
    assert by_axis["bw"].failed == {"2": 1}
    assert by_axis["tile"].failed == {"a": 1}
    assert by_axis["tile"].pairs == {"a": 0, "b": 1, "c": 1}
    assert by_axis["tile"].ratios["b"] == pytest.approx(80.0)


def test_a_first_value_whose_points_all_failed_is_no_reference() -> None:
    points = [{"bw": bw, "tile": tile} for bw in "12" for tile in "abc"]
    found = sensitivity(AXES, points, [None, 800, 200, None, 400, 100])
    tile = next(effect for effect in found.effects if effect.axis == "tile")
    assert tile.ratios == {"a": None, "b": 1.0, "c": pytest.approx(0.25)}
    assert tile.failed == {"a": 2}


def test_equal_points_count_as_often_as_they_stand() -> None:
    """Three equal points at y = a, of ratio 2, and one at b, of ratio 32: the mean is 2^((3 * 1 + 5) / 4) = 4."""
    points = [{"x": x, "y": y} for x in "12" for y in "aaab"]
    found = sensitivity({"x": ["1", "2"], "y": ["a", "b"]}, points, [100] * 3 + [10] + [200] * 3 + [320])
    x = next(effect for effect in found.effects if effect.axis == "x")
    assert x.ratios["2"] == pytest.approx(4.0)
    assert x.pairs["2"] == 4


@pytest.mark.parametrize("seed", range(20))
def test_ratios_equal_means_over_all_pairs(seed: int) -> None:
    """The reference looks at every two points."""
    source = random.Random(seed)
    axes = {axis: [str(value) for value in range(source.randint(2, 5))] for axis in "xyz"}
    grid = [{"x": x, "y": y, "z": z} for x in axes["x"] for y in axes["y"] for z in axes["z"]]
    points = [grid[0], *source.sample(grid[1:], len(grid) // 2)]
    latencies_ps = [source.choice([None, *range(1, 10**6, 1000)]) for _ in points]
    known = [(point, ps) for point, ps in zip(points, latencies_ps, strict=True) if ps is not None]
    for effect in sensitivity(axes, points, latencies_ps).effects:
        logs: dict[tuple[str, str], list[float]] = {}
        for one, ps in known:
            for other, other_ps in known:
                if {axis for axis in axes if one[axis] != other[axis]} == {effect.axis}:
                    logs.setdefault((one[effect.axis], other[effect.axis]), []).append(log(other_ps / ps))
        if not logs:
            assert effect.swing is None
            continue
        first = min((one for one, _ in logs), key=axes[effect.axis].index)
        wanted = {value: logs.get((first, value)) for value in axes[effect.axis]}
        for value, found in wanted.items():
            if value == first:
                assert effect.ratios[value] == 1.0
            else:
                assert effect.ratios[value] == (pytest.approx(exp(np.mean(found))) if found else None)
                assert effect.pairs[value] == len(found or ())


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


def test_points_of_which_no_two_differ_in_one_axis_have_no_effects() -> None:
    axes = {axis: [str(value) for value in range(5000)] for axis in "xy"}
    points = [{"x": str(number), "y": str(number * 7 % 5000)} for number in range(5000)]
    found = sensitivity(axes, points, [1 + number for number in range(5000)])
    assert [effect.swing for effect in found.effects] == [None, None]
    assert found.explained is None
