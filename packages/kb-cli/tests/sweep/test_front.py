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
