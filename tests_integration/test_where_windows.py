"""Where the time went, followed window by window: the answer is that of the whole log. `nox -s cases` follows more."""

import random
from importlib import import_module
from pathlib import Path

import pytest
from sampled_cases import sampled

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks" / "validation")
    random_kernels, random_chips = import_module("random_kernels"), import_module("random_chips")
    random_networks = import_module("random_networks")
    patch.syspath_prepend(Path(__file__).parent / "attribution")
    log_windows = import_module("log_windows")


@pytest.mark.parametrize("seed", sampled(range(20), 3))
def test_random_kernels(seed: int) -> None:
    log_windows.check(random_kernels.run(seed), 8)


@pytest.mark.parametrize("seed", sampled(range(12), 2))
def test_random_chips_with_several_transfers_under_way(seed: int) -> None:
    case = random_chips.draw(seed, 4)
    case.spec["cube"]["pe_template"]["nodes"]["pe_dma"]["outstanding"] = random.Random(seed).choice((1, 2, 4, 8))
    log_windows.check(random_chips.run(case), 5)


@pytest.mark.parametrize("seed", sampled(range(100, 108), 2))
def test_random_networks(seed: int) -> None:
    case = random_networks.with_network(random_chips.draw(seed, 4))
    case.spec["cube"]["pe_template"]["nodes"]["pe_dma"]["outstanding"] = random.Random(seed).choice((1, 2, 4, 8))
    log_windows.check(random_chips.run(case), 5)
