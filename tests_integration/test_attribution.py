"""Where the time went: rows that add up, over bundled benchmarks and topologies, random kernels and random chips.

Of the random ones a third; `nox -s cases` adds up all.
"""

import random
from importlib import import_module
from pathlib import Path

import pytest
from sampled_cases import sampled

from kb_cli.main import main
from kb_dataexec import read_log

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks" / "validation")
    patch.syspath_prepend(Path(__file__).parent / "attribution")
    random_kernels, random_chips = import_module("random_kernels"), import_module("random_chips")
    random_networks = import_module("random_networks")
    laws = import_module("attribution_laws")

SMALL = {
    "gemm": ["-p", "M=320", "-p", "N=300", "-p", "K=200", "-p", "dtype=f16"],
    "softmax": ["-p", "M=100", "-p", "N=96"],
}
BENCHMARKS = ["gemm", "power_iteration", "softmax", "vector_add"]
CHIPS = ["one_pe", "one_cube", "one_cube_banked", "one_sip"]
RUNS = [(name, chip) for name in BENCHMARKS for chip in CHIPS] + [("gemm", "u280_hbm")]


@pytest.mark.parametrize(("benchmark_name", "chip"), RUNS)
def test_the_time_of_bundled_runs_adds_up(
    benchmark_name: str, chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topology = str(ROOT / "topologies" / f"{chip}.yaml")
    options = [
        *SMALL.get(benchmark_name, []),
        "--no-verify",
        "--levers",
        "none",
        "--keep",
        "all",
        "--topology",
        topology,
    ]
    with pytest.raises(SystemExit) as ended:
        main(["run", str(ROOT / "benchmarks" / f"{benchmark_name}.py"), *options])
    assert not ended.value.code
    (log,) = tmp_path.glob("kb-runs/*/log")
    assert laws.check_laws(read_log(log)).launches


@pytest.mark.parametrize("seed", sampled(range(60), 20))
def test_the_time_of_random_kernels_adds_up(seed: int) -> None:
    laws.check_laws(random_kernels.run(seed))


@pytest.mark.parametrize("seed", sampled(range(40), 13))
def test_the_time_on_random_chips_with_several_transfers_under_way_adds_up(seed: int) -> None:
    case = random_chips.draw(seed, 4)
    outstanding = random.Random(seed).choice((1, 2, 4, 8))
    case.spec["cube"]["pe_template"]["nodes"]["pe_dma"]["outstanding"] = outstanding
    laws.check_laws(random_chips.run(case))


@pytest.mark.parametrize("seed", sampled(range(100, 124), 8))
def test_the_time_on_random_chips_with_packets_ports_and_buffers_adds_up(seed: int) -> None:
    case = random_networks.with_network(random_chips.draw(seed, 4))
    case.spec["cube"]["pe_template"]["nodes"]["pe_dma"]["outstanding"] = random.Random(seed).choice((1, 2, 4, 8))
    laws.check_laws(random_chips.run(case))


def test_random_networks_are_of_all_kinds_and_repeat() -> None:
    drawn = [random_networks.with_network(random_chips.draw(seed, 4)).spec for seed in range(100, 124)]
    assert drawn[:3] == [random_networks.with_network(random_chips.draw(seed, 4)).spec for seed in range(100, 103)]
    texts = list(map(str, drawn))
    for part in ("payload_nbytes", "port_nbytes", "transit_credits", "granule_nbytes"):
        assert 0 < sum(part in text for text in texts) < len(texts)
