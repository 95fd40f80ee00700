"""Pareto fronts against the definition, by brute force."""

import numpy as np
import pytest

from kb_cli.sweep.front import front


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_against_every_pair(columns: int) -> None:
    figures = np.random.default_rng(columns).integers(0, 6, (80, columns)).astype(np.float64)
    beaten = [any((other <= row).all() and (other < row).any() for other in figures) for row in figures]
    found = front(figures)
    assert sorted(found) == [at for at, is_beaten in enumerate(beaten) if not is_beaten]
    assert [tuple(figures[at]) for at in found] == sorted(tuple(figures[at]) for at in found)


@pytest.mark.parametrize("columns", [2, 3])
def test_no_points_have_no_front(columns: int) -> None:
    assert front(np.empty((0, columns))) == []


@pytest.mark.parametrize("columns", [2, 3])
def test_many_points_that_are_all_on_the_front(columns: int) -> None:
    """Each of 100,000 points is smaller in one column than all others before it. Comparing pairs takes minutes."""
    number = np.arange(100_000.0)
    turned = np.random.default_rng(1).permutation(100_000)
    figures = np.column_stack([number, -number, number % 7][:columns])
    assert front(figures[turned]) == np.argsort(turned).tolist()
