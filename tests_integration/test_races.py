"""No bundled benchmark races, on chips with one PE and with many, and the search for races is left out for none."""

import pytest
from sampled_cases import IS_SAMPLED

from kb_cli.benchmark import bundled
from kb_cli.benchmark.load import load_benchmark
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import build_params
from kb_cli.run.saving.save import run_unsaved
from kb_dataexec.analysis import RaceReport
from kb_topology import load_topology


@pytest.mark.parametrize("chip", ["one_cube"] if IS_SAMPLED else ["one_pe", "one_cube", "one_sip"])
@pytest.mark.parametrize("name", bundled.names("benchmarks"))
def test_no_bundled_benchmark_races(name: str, chip: str) -> None:
    loaded = load_benchmark(name)
    params, topology = build_params(loaded.bench.Params, {}), load_topology(bundled.find("topologies", chip))
    found = run_unsaved(Setup(loaded, params, topology, seed=0, verify=False, log=True, races=True)).result.races
    assert found == RaceReport(races=[])
