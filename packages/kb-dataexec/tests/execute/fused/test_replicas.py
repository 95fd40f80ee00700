"""Products whose factors are replicas of one array become one product, and only these."""

import numpy as np
import pytest
from dataexec_gemm_log import HBM, GemmProblem, LogBuilder

from kb_dataexec.execute.executor import Executor
from kb_dataexec.execute.fused.products import grid_product
from kb_dataexec.execute.fused.products.grids import Accumulation, grids
from kb_dataexec.execute.fused.products.panels import FactorPanel
from kb_dataexec.execute.fused.products.stored_matrix import StoredMatrix
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops.gemm import product
from kb_dataexec.verify.tolerance import gemm_tolerance

APART = 1 << 16
"""Bytes from the memory of one problem to that of the next."""


def problems(grid_m: int, grid_n: int, copies: int = 1) -> tuple[MemoryStore, list[GemmProblem]]:
    """A grid of problems in one memory, each *copies* times.

    Those of a row of the grid share A's array, those of a column that of B.
    """
    made = []
    for number in range(grid_m * grid_n * copies):
        problem = GemmProblem(14, 10, 12, (8, 8, 8), command_seq=number, seed=number)
        place = number // copies
        left, above = place // grid_n * grid_n * copies, place % grid_n * copies
        problem.a = made[left].a if number > left else problem.a
        problem.b = made[above].b if number > above else problem.b
        for name in ("at_a", "at_b", "at_c"):
            setattr(problem, name, getattr(problem, name) + number * APART)
        made.append(problem)
    store = MemoryStore([(HBM, 1 << 30, "hbm"), *GemmProblem(1, 1, 1, (1, 1, 1)).memory().regions[1:]])
    for problem in made:
        store.write_tensor(HBM, problem.at_a, problem.a, copy=False)
        store.write_tensor(HBM, problem.at_b, problem.b, copy=False)
        store.reserve(HBM, problem.at_c, 14 * 10 * 2)
    return store, made


def products(monkeypatch: pytest.MonkeyPatch, store: MemoryStore, made: list[GemmProblem]) -> list[tuple[int, int]]:
    """The shapes of the products that all problems take, in one log. Each result has to be right."""
    builder = LogBuilder()
    for problem in made:
        problem.add_to(builder)
    shapes = []
    monkeypatch.setattr(grid_product, "product", lambda a, b: shapes.append((len(a), b.shape[1])) or product(a, b))
    after = Executor(builder.log(), store).run()
    for problem in made:
        a, b = (
            store.read(HBM, at, 1, 2 * n, 2 * n, problem.dtype).astype(np.float64)
            for at, n in ((problem.at_a, 14 * 12), (problem.at_b, 12 * 10))
        )
        a, b = a.reshape(14, 12), b.reshape(12, 10)
        allowed = gemm_tolerance(a @ b, np.abs(a) @ np.abs(b), 12, problem.out)
        assert (np.abs(problem.result(after) - a @ b) <= allowed).all()
    return sorted(shapes)


def test_a_grid_of_replicas_is_one_product(monkeypatch):
    store, made = problems(3, 2)
    assert products(monkeypatch, store, made) == [(3 * 14, 2 * 10)]


def test_a_product_that_several_compute_alike_is_computed_once(monkeypatch):
    store, made = problems(2, 3, copies=4)
    assert products(monkeypatch, store, made) == [(2 * 14, 3 * 10)]


def test_products_alike_that_start_from_matrices_are_of_one_form():
    a = FactorPanel((StoredMatrix(0, 0, 4, 8, 8, 0),), False, False)
    bs = [FactorPanel((StoredMatrix(0, at, 4, 8, 8, 0),), True, False) for at in (64, 128)]
    started = [Accumulation([n], a, bs[n % 2], StoredMatrix(0, 256 * n, 4, 16, 16, 0), []) for n in range(6)]
    found = [[[each.numbers for each in line] for line in grid] for grid in grids(iter(started))]
    assert found == [[[[0], [1]]], [[[2], [3]]], [[[4], [5]]]]


def test_equal_values_in_arrays_of_their_own_are_not_joined(monkeypatch):
    store, made = problems(1, 2)
    store.write_tensor(HBM, made[1].at_a, made[0].a.copy())
    assert products(monkeypatch, store, made) == [(14, 10)] * 2


def test_a_replica_that_was_changed_is_a_factor_of_its_own(monkeypatch):
    store, made = problems(1, 3)
    store.write(HBM, made[1].at_a + 2 * 5, np.float16([77]))  # element 5 of row 0
    assert products(monkeypatch, store, made) == [(14, 10), (14, 20)]


def test_rows_of_replicas_that_lie_elsewhere_in_the_array_are_not_taken_for_them(monkeypatch):
    store, made = problems(1, 2)
    turned = np.vstack([made[0].a, made[0].a[::-1]])
    for problem, at in zip(made, (0, 14), strict=True):
        store.write_tensor(HBM, problem.at_a - at * 24, turned, copy=False)
    assert products(monkeypatch, store, made) == [(14, 10)] * 2
