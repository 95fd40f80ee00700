"""How far a latency may be from a device: the band by hand, and which comparison fits which run."""

import json
import math
from pathlib import Path

import msgspec
import pytest

from kb_cli.run.base.fidelity_band import Fidelity, fidelity_text
from kb_cli.run.base.result import Traffic
from kb_cli.run.observe.metrics import Metrics, Use, fidelity_of, kind_of
from kb_topology import load_topology, loads_topology

ONE_PE = (Path(__file__).parents[4] / "topologies/one_pe.yaml").read_text(encoding="utf-8")
GEMM = {"device": "d", "test": "gemm", "p90": math.log(2), "rows": 10, "source": "gemm.py"}


def metrics(array=0.0, moved=0):
    use = Use(count=1, mean=array, busiest=array, node="n")
    return Metrics(
        span_ps=3_000_000,
        uses={"pe_gemm": use},
        traffic={"hbm": Traffic(read=moved, write=0)},
        bandwidth_gbs={},
        tile_stages=0,
        peak_flops=None,
    )


def chip(*validations):
    return loads_topology(f"{ONE_PE}\nfidelity: {json.dumps(validations)}\n" if validations else ONE_PE)


@pytest.mark.parametrize(
    ("array", "moved", "test"), [(0.5, 0, "gemm"), (0.5, 9, "gemm"), (0.0, 9, "dram"), (0.0, 0, "noc")]
)
def test_a_run_is_like_a_product_a_memory_or_a_network(array, moved, test):
    assert kind_of(metrics(array, moved)) == test


def test_the_band_by_hand():
    found = fidelity_of(chip(GEMM), metrics(0.5))
    assert (found.low_ns, found.high_ns) == pytest.approx((1500.0, 6000.0))  # 3 us over and times e ** ln 2
    assert str(found) == "1.500 us to 6.000 us, as 9 of 10 of 10 gemm rows of d"
    assert (found.validated, found.source, found.p90) == (True, "gemm.py", math.log(2))


def test_the_first_comparison_of_the_kind_counts():
    other = {**GEMM, "test": "dram", "p90": 0.0}
    assert fidelity_of(chip(other, GEMM, {**GEMM, "p90": 5.0}), metrics(0.5)).p90 == math.log(2)


@pytest.mark.parametrize("validations", [(), (GEMM,)])
def test_another_kind_is_not_validated(validations):
    found = fidelity_of(chip(*validations), metrics(0.0, 9))
    assert found == Fidelity(test="dram", validated=False)
    assert fidelity_text(found) == " (not validated: no dram test on this chip)"


def test_a_comparison_holds_for_the_chip_that_was_compared_alone():
    own, other = loads_topology(ONE_PE).digest, "0" * 64
    compared = fidelity_of(chip({**GEMM, "digest": other[:12]}, {**GEMM, "digest": own, "device": "e"}), metrics(0.5))
    assert (compared.validated, compared.device) == (True, "e")
    changed = fidelity_of(chip({**GEMM, "digest": other[:12]}), metrics(0.5))
    assert changed == Fidelity(test="gemm", validated=False, device="d", source="gemm.py")
    assert str(changed) == "not validated: the chip was changed since its gemm test against d"


def test_a_changed_file_loses_the_band(bench_file, invoke, tmp_path):
    file, stated = tmp_path / "chip.yaml", json.dumps([{**GEMM, "digest": loads_topology(ONE_PE).digest}])
    file.write_text(f"{ONE_PE}\nfidelity: {stated}\n")
    assert "gemm rows of d)" in invoke("run", bench_file(), "--topology", file).stdout
    file.write_text(file.read_text().replace("wire_ps_per_mm: 7.0", "wire_ps_per_mm: 7.5"))
    run = invoke("run", bench_file(), "--topology", file)
    assert "(not validated: the chip was changed since its gemm test against d)" in run.stdout


def test_runs_of_older_versions_say_nothing():
    assert fidelity_text(msgspec.UNSET) == ""


def test_the_json_has_all_figures(bench_file, invoke):
    stated = json.loads(invoke("run", bench_file(), "--json").stdout)["fidelity"]
    nothing = dict.fromkeys(("low_ns", "high_ns", "device", "rows", "p90", "source"))
    assert stated == nothing | {"test": "gemm", "validated": False}


def test_a_list_of_runs_and_a_report_show_it(bench_file, invoke, tmp_path):
    chip = tmp_path / "chip.yaml"
    chip.write_text(ONE_PE + "\nfidelity:\n  - {device: d, test: gemm, p90: 0.1, rows: 3, source: x.py}\n")
    assert load_topology(chip).digest == loads_topology(ONE_PE).digest
    run = invoke("run", bench_file(), "--topology", chip)
    assert ", as 9 of 10 of 3 gemm rows of d)\n" in run.stdout
    assert "x 1.11 (gemm)" in invoke("runs").stdout
    (folder,) = (tmp_path / "kb-runs").iterdir()
    assert "as 9 of 10 of 3 gemm rows of d), " in " ".join(invoke("report", folder).stdout.split())
