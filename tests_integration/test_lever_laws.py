"""The levers that the last sentence of a run names are those that were measured: bundled benchmarks, random chips.

A sample; `nox -s levers` takes all benchmarks on all chips, and 200 random cases.
"""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks" / "validation")
    laws = import_module("lever_laws")

RUNS = [("gemm", "one_cube"), ("embedding", "one_cube_banked")]


@pytest.mark.parametrize(("benchmark_name", "chip"), RUNS)
def test_levers_of_bundled_runs_are_as_told(benchmark_name: str, chip: str) -> None:
    files = ROOT / "topologies" / f"{chip}.yaml", ROOT / "benchmarks" / f"{benchmark_name}.py"
    ((_, found),) = laws.bundled(files[:1], files[1:])
    assert (found.refused, found.broken) == ("", [])
    assert found.levers


@pytest.mark.parametrize("seed", [1, 6])
def test_levers_of_random_runs_are_as_told(seed: int) -> None:
    found = laws.random_run(seed)
    assert (found.refused, found.broken) == ("", [])
    assert found.levers
