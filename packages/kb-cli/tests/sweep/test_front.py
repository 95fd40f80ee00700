"""Pareto fronts against the definition, by brute force."""

import numpy as np
import pytest

import kb_cli.sweep.front as module
from kb_cli.sweep.front import front


@pytest.mark.parametrize("few_pairs", [4, 4096])
@pytest.mark.parametrize("values", [2, 6, 1000])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 6])
def test_against_every_pair(columns: int, values: int, few_pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where almost no pairs of rows are compared at once, so that rows are divided down to single ones."""
    monkeypatch.setattr(module, "_FEW_PAIRS", few_pairs)
    figures = np.random.default_rng(columns).integers(0, values, (80, columns)).astype(np.float64)
    beaten = [any((other <= row).all() and (other < row).any() for other in figures) for row in figures]
    found = front(figures)
    assert sorted(found) == [at for at, is_beaten in enumerate(beaten) if not is_beaten]
    assert [tuple(figures[at]) for at in found] == sorted(tuple(figures[at]) for at in found)


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_no_points_have_no_front(columns: int) -> None:
    assert front(np.empty((0, columns))) == []


@pytest.mark.parametrize(("columns", "n"), [(2, 100_000), (3, 100_000), (4, 10_000), (5, 10_000)])
def test_many_points_that_are_all_on_the_front(columns: int, n: int) -> None:
    """Each of *n* points is smaller in one column than all others before it. Comparing pairs takes up to minutes."""
    number = np.arange(float(n))
    turned = np.random.default_rng(1).permutation(n)
    figures = np.column_stack([number, -number, number % 7, number % 1009, -(number % 89)][:columns])
    assert front(figures[turned]) == np.argsort(turned).tolist()


def test_a_gain_within_the_tolerance_is_not_worth_a_dearer_point() -> None:
    """By hand, with 1 %: 100 at cost 4 gains 0.9 % on 100.9 at cost 3, which gains 0.9 % on 101.8 at cost 2.

    The point of cost 3 leaves for the cheaper one. The point of cost 4 stays, because none that stays is within 1 %.
    """
    figures = np.array([[100.0, 4.0], [100.9, 3.0], [101.8, 2.0], [200.0, 1.0]])
    assert front(figures) == [0, 1, 2, 3]
    assert front(figures, 0.01) == [0, 2, 3]
    assert front(figures, 0.02) == [2, 3]


def test_points_of_equal_costs_within_the_tolerance_are_all_on_the_front() -> None:
    figures = np.array([[101.5, 2.0], [100.5, 2.0], [100.0, 2.0], [90.0, 3.0]])
    assert front(figures) == [3, 2]
    assert front(figures, 0.01) == [3, 2, 1]


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@pytest.mark.parametrize("within", [0.01, 0.1, 0.5])
def test_each_point_is_within_the_tolerance_of_a_point_of_the_front_that_costs_no_more(
    columns: int, within: float
) -> None:
    figures = np.random.default_rng(columns).integers(1, 30, (200, columns)).astype(np.float64)
    found = front(figures, within)
    kept = figures[found]
    for row in figures:
        assert ((kept[:, 0] <= row[0] * (1 + within)) & (kept[:, 1:] <= row[1:]).all(axis=1)).any()
    for row in kept:
        cheaper = (kept[:, 1:] <= row[1:]).all(axis=1) & (kept[:, 1:] < row[1:]).any(axis=1)
        assert not (cheaper & (kept[:, 0] <= row[0] * (1 + within))).any()
