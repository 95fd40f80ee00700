"""No latency is below a roof: bundled benchmarks on bundled chips, and random chips and kernels.

A sample; `nox -s roofs` takes all benchmarks on all chips, and 200 random cases.
"""

import json
from importlib import import_module
from pathlib import Path

import pytest
from sampled_cases import sampled

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks" / "validation")
    roofs = import_module("roofs")

RUNS = [("gemm", "devices/h100"), ("softmax", "one_cube_banked"), ("attention", "one_cube"), ("all_reduce", "one_sip")]
RANDOM_RUNS = 60


@pytest.mark.parametrize(("benchmark_name", "chip"), RUNS)
def test_no_bundled_run_takes_less_than_a_roof(benchmark_name: str, chip: str) -> None:
    files = ROOT / "topologies" / f"{chip}.yaml", ROOT / "benchmarks" / f"{benchmark_name}.py"
    ((_, found),) = roofs.bundled(files[:1], files[1:])
    assert (found.refused, found.broken) == ("", [])
    assert max(found.shares.values()) > 0.05


@pytest.mark.parametrize("seed", sampled(range(RANDOM_RUNS), 20))
def test_no_random_run_takes_less_than_a_roof(seed: int) -> None:
    found = roofs.random_run(seed)
    assert (found.refused, found.broken) == ("", [])


def test_random_runs_come_to_the_roofs() -> None:
    """Bounds that no run comes near would hold for any rate. These runs keep one part busy all the time."""
    seeds = {"hbm": 5, "sram": 0, "link": 6, "port": 37, "hbm cache": 44}
    shares = {kind: roofs.random_run(seed).shares[kind] for kind, seed in seeds.items()}
    assert all(0.98 < share <= 1 for share in shares.values()), shares


def test_a_run_below_a_roof_is_found() -> None:
    line = '{"kind": "hbm", "node": "hbm0", "least_ps": 11, "even_ps": 12, "is_beaten": false}'
    found = roofs.judged(10, [json.loads(line)], {"hbm": 1.5})
    assert len(found.broken) == 3
    beaten = {"kind": "acme.gemm", "node": "pe0", "least_ps": None, "even_ps": None, "is_beaten": True}
    assert roofs.judged(10, [beaten], {}).broken == ["pe0 is faster than acme.gemm states"]
