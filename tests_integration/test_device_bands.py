"""The bands that `kb run` prints on the topologies of devices, and the runs that have none."""

import json
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from kb_cli.main import kb
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
CHIPS = sorted((ROOT / "topologies").glob("**/*.yaml"))
VALIDATED = {path.stem: path for path in CHIPS if any(each.kernel for each in load_topology(path).spec.fidelity or [])}
SMALL = {"h100": {"M": 256, "N": 256, "K": 256, "dtype": "bf16"}, "a100": {"M": 64, "N": 256, "K": 256, "dtype": "f16"}}
DEVICES = {"h100": "h100_sxm", "a100": "a100_sxm_80gb"}

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    names = ("gemm_runs", "measured", "stated_bands")
    gemm_runs, measured, stated_bands = map(import_module, names)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`kb run gemm` as JSON, on the chip in a file, with parameters."""
    monkeypatch.chdir(tmp_path)

    def call(path, **params):
        options = [word for name, value in params.items() for word in ("-p", f"{name}={value}")]
        words = ["run", "gemm", "--topology", str(path), *options, "--no-verify", "--json"]
        return json.loads(CliRunner().invoke(kb, words, catch_exceptions=False).stdout)

    return call


def test_the_devices_with_a_compared_kernel_are_known():
    assert set(VALIDATED) == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_the_default_product_of_a_device_has_the_time_and_the_band_of_its_comparison(name, run):
    found = run(VALIDATED[name], **SMALL[name])
    row = measured.MeasuredRow(
        DEVICES[name], "gemm", {key: str(value) for key, value in SMALL[name].items()}, 1.0, "us"
    )
    compared = gemm_runs.simulate(load_topology(VALIDATED[name]), row)
    assert found["fidelity"]["why"] == ""
    assert found["fidelity"]["time_ns"] == pytest.approx(1000 * compared.simulated, abs=0.001)
    assert found["startup_ns"] == pytest.approx(1000 * compared.startup, abs=0.001)
    band = stated_bands.of_gemms(load_topology(VALIDATED[name]), [compared])
    assert (band.covered, band.inside) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"operands": "replicated"}, "method=blocks, not library as in the 25 gemm rows of h100_sxm"),
        ({"method": "blocks"}, "method=blocks, not library as in the 25 gemm rows of h100_sxm"),
        ({"dtype": "f8e4m3"}, "dtype=f8e4m3, not bf16 as in the 25 gemm rows of h100_sxm"),
        ({"M": 255}, "M=255 lies outside 256 to 4096 of the 25 gemm rows of h100_sxm"),
        ({"tile": "64x64x64"}, "tile=64x64x64, not the default none as in the 25 gemm rows of h100_sxm"),
    ],
)
def test_another_product_has_no_band(changes, why, run):
    found = run(VALIDATED["h100"], **{**SMALL["h100"], **changes})["fidelity"]
    assert (found["validated"], found["why"], found["low_ns"]) == (False, why, None)


@pytest.mark.parametrize("name", SMALL)
def test_a_fitted_number_that_is_changed_takes_the_band_away(name, run, tmp_path):
    text = VALIDATED[name].read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.strip().startswith("sustained_clock_ghz:")]
    path = tmp_path / "changed.yaml"
    path.write_text(text.replace(line, f"{line}1"), encoding="utf-8")
    found = run(path, **SMALL[name])["fidelity"]
    assert found["why"] == f"the chip was changed since its gemm test against {DEVICES[name]}"


@pytest.mark.parametrize(("op", "batch", "why"), [("o", 1, ""), ("norm1", 1, "op="), ("o", 2, "batch=2, not the")])
def test_a_product_of_a_model_has_the_band_of_blocks_and_no_other_op_has(op, batch, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = {"phase": "prefill", "tokens": 3, "batch": batch, "op": f"block0.{op}"}
    options = [word for name, value in params.items() for word in ("-p", f"{name}={value}")]
    words = ["run", "llama3-8b", "--topology", str(VALIDATED["a100"]), *options, "--no-verify", "--levers", "none"]
    found = json.loads(CliRunner().invoke(kb, [*words, "--json"], catch_exceptions=False).stdout)
    fidelity = found["fidelity"]
    assert fidelity["why"].startswith(why)
    assert fidelity["validated"] is not bool(why)
    if not why:
        assert (fidelity["test"], fidelity["startup_ns"]) == ("block", 6200)
        assert fidelity["time_ns"] == pytest.approx(found["latency_ns"] + 6200)
