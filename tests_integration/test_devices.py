"""The topologies of devices: each runs a product with a right result, and says where its constants come from.

Every bundled chip runs three of the bundled benchmarks; `nox -s cases` has every chip run every benchmark.
"""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sampled_cases import sampled_of_each

import kernbench as kb

ROOT = Path(__file__).parents[1]
DEVICES = sorted((ROOT / "topologies/devices").glob("*.yaml"))
U280 = ROOT / "topologies/u280_hbm.yaml"
FITTED = {"a100", "h100", "wormhole", "ddr4_u280"}

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    devices = import_module("devices")

RUNS = [
    (chip, path.stem)
    for chip in devices.CHIPS
    for path in devices.BENCHMARKS
    if (chip, path.stem) not in devices.REFUSED
]
"""Every bundled chip with every bundled benchmark that it does not refuse."""


def product(tl, a, b, c):
    """Each program computes a block of rows, and adds 1 on the math units."""
    step = -(-a.shape[0] // tl.num_programs())
    rows = slice(min(tl.program_id() * step, a.shape[0]), min((tl.program_id() + 1) * step, a.shape[0]))
    if rows.start < rows.stop:
        sums = tl.dot(tl.load(a[rows, :]), tl.load(b[:, :]))
        tl.store(c[rows, :], (sums + 1).to("f16"))


@pytest.mark.parametrize("path", DEVICES, ids=[path.stem for path in DEVICES])
def test_a_device_runs_a_product_with_a_right_result(path):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((37, 24)).astype(np.float16), rng.standard_normal((24, 16)).astype(np.float16)
    run = kb.run(product, a, b, kb.empty((37, 16), "f16"), chip=path)
    run.check(a.astype(np.float64) @ b.astype(np.float64) + 1)


@pytest.mark.parametrize("path", DEVICES, ids=[path.stem for path in DEVICES])
def test_fitted_numbers_stand_in_the_devices_that_have_some(path):
    text = path.read_text(encoding="utf-8")
    assert ("FITTED" in text) == (path.stem in FITTED)
    assert ("Nothing is fitted to rows of this device" in text) == (path.stem not in FITTED)


@pytest.mark.parametrize("path", [*DEVICES, U280], ids=lambda path: path.stem)
def test_a_stated_fidelity_comes_from_a_script_that_is_here(path):
    chip = kb.load_topology(path)
    stated = chip.spec.fidelity or []
    assert bool(stated) == (path.stem in FITTED or path == U280)
    assert all((ROOT / each.source).is_file() and each.digest and each.is_of(chip.digest) for each in stated), (
        f"{path.name} was changed: compare it with the device again, then state the digest {chip.digest[:12]}"
    )


@pytest.mark.parametrize(("chip", "bench"), sampled_of_each(RUNS, lambda run: run[0], 1))
def test_a_benchmark_runs_with_its_defaults_on_a_chip(chip, bench):
    assert kb.run(bench, chip=devices.CHIPS[chip], compute=False, keep="none").latency_ps > 0


@pytest.mark.parametrize(("chip", "bench"), devices.REFUSED)
def test_a_benchmark_is_refused_on_a_chip_without_the_unit_that_it_needs(chip, bench):
    with pytest.raises(kb.KbError, match=devices.REFUSED[chip, bench]) as caught:
        kb.run(bench, chip=devices.CHIPS[chip], compute=False, keep="none")
    assert "and a pe_math if there is none, or take a chip with one" in str(caught.value)


def test_the_script_names_devices_that_it_does_not_know(capsys):
    assert devices.main(["h999"]) == 2
    assert "got h999, needs some of a100" in capsys.readouterr().err
