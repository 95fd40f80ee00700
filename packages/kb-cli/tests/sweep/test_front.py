"""Pareto fronts against the definition, by brute force."""

import numpy as np
import pytest

from kb_cli.sweep.front import front


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_against_every_pair(columns: int) -> None:
    figures = np.random.default_rng(columns).integers(0, 6, (80, columns)).astype(np.float64)
    beaten = [any((other <= row).all() and (other < row).any() for other in figures) for row in figures]
    found = front(figures)
    assert sorted(found) == [at for at, is_beaten in enumerate(beaten) if not is_beaten]
    assert [tuple(figures[at]) for at in found] == sorted(tuple(figures[at]) for at in found)
