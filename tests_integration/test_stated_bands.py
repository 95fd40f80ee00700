"""Measured rows and the bands that topologies state for runs like them. All rows here are made up."""

import json
import math
from importlib import import_module
from pathlib import Path

import pytest

from kb_topology import load_topology

ROOT = Path(__file__).parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    names = ("gemm", "measured", "noc", "stated_bands", "gemm_halves")
    gemm, measured, noc, stated_bands, gemm_halves = map(import_module, names)

H100 = load_topology(ROOT / "topologies/devices/h100.yaml")
P90 = H100.spec.fidelity[0].p90


def compared(k, ratio, side=256, simulated=7.0, **params):
    """A product whose simulated time, with a start-up of 4.39 us, is *ratio* times the measured time."""
    sizes = {"M": str(side), "N": "256", "K": str(k), "dtype": "bf16"} | params
    row = measured.MeasuredRow("h100_sxm", "gemm", sizes, simulated / ratio, "us")
    return measured.Comparison(row, simulated, 0.0, startup=4.39)


def test_rows_are_inside_up_to_the_ends_of_the_band():
    just_inside, just_outside = (math.exp(P90 * part) for part in (0.999, 1.001))
    rows = [compared(256, ratio) for ratio in (just_inside, 1 / just_inside, just_outside, 1 / just_outside)]
    found = stated_bands.of_gemms(H100, rows)
    assert found == (2, 4, 4)
    assert not found.is_kept
    assert str(found) == "2 of 4 rows lie in the band that the chip states, less than 85 %"


@pytest.mark.parametrize(("outside", "is_kept"), [(0, True), (3, True), (4, False)])
def test_of_twenty_rows_seventeen_have_to_lie_in_the_band(outside, is_kept):
    rows = [compared(256, 1.0)] * (20 - outside) + [compared(256, 2.0)] * outside
    assert stated_bands.of_gemms(H100, rows).is_kept == is_kept


@pytest.mark.parametrize(
    "other", [{"side": 64}, {"k": 8192}, {"dtype": "f8e4m3"}, {"batch": "3"}], ids=lambda each: next(iter(each))
)
def test_rows_that_no_comparison_covers_do_not_count(other):
    rows = [compared(256, 1.0), compared(**{"k": 256, "ratio": 9.0, **other})]
    found = stated_bands.of_gemms(H100, rows)
    assert str(found) == "1 of 1 rows lie in the band that the chip states, and no band is stated for 1 more"
    assert found.is_kept


def test_a_chip_without_comparisons_states_no_band():
    h200 = load_topology(ROOT / "topologies/devices/h200.yaml")
    assert str(stated_bands.of_gemms(h200, [compared(256, 9.0)])) == "the chip states no band for such rows"


def test_the_rows_of_a_file_are_counted_and_too_few_inside_are_exit_code_1(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(gemm.DEVICES, "h100_sxm", gemm.GemmDevice("h100", p90=9.0, most_fitted=2))
    path = tmp_path / "rows.csv"

    def run(*values):
        rows = [f"h100_sxm,gemm,M=256 N=256 K=256 dtype=bf16,{value},us,made up,none\n" for value in values]
        path.write_text("device,test,params,value,unit,source,licence\n" + "".join(rows))
        code = gemm.main(["--data", str(path), "--json"])
        return code, json.loads(capsys.readouterr().out)

    _, found = run(5.0)
    (row,) = found["rows"]
    assert row["startup"] == 4.39
    assert 4.39 < row["simulated"] < 7
    code, found = run(row["simulated"], 2 * row["simulated"])
    assert (code, found["devices"][0]["band"]) == (1, {"inside": 1, "covered": 2, "rows": 2})
    code, found = run(row["simulated"])
    assert (code, found["devices"][0]["band"]) == (0, {"inside": 1, "covered": 1, "rows": 1})


def test_the_start_up_has_a_column_where_there_is_any():
    with_startup, without = (
        measured.table([compared(256, 1.0)]),
        measured.table([compared(256, 1.0)._replace(startup=0)]),
    )
    assert with_startup.splitlines()[0].split() == ["measured", "simulated", "start-up", "ln", "ratio", "wall", "s"]
    assert with_startup.splitlines()[1].split()[6:9] == ["7", "7", "4.39"]
    assert "start-up" not in without


def test_a_part_of_a_chip_has_one_band_for_all_its_rows():
    wormhole = load_topology(ROOT / "topologies/devices/wormhole.yaml")
    p90 = wormhole.spec.fidelity[0].p90
    row = measured.MeasuredRow("wormhole_b0", noc.READ, {}, 100.0, "cycles at 1 GHz")
    rows = [measured.Comparison(row, 100 * math.exp(part * p90), 0.0) for part in (0.9, -0.9, 1.1)]
    assert stated_bands.of_part(wormhole, rows) == (2, 3, 3)
    unknown = [each._replace(row=row._replace(device="another")) for each in rows]
    assert stated_bands.of_part(wormhole, unknown) == (0, 0, 3)


def test_a_band_that_is_narrower_than_that_of_predicted_rows_is_named():
    found = gemm_halves.Halves("d", 1.0, 2.0, 0.1004, [(5.0, 1.5)], 0.1)
    assert found.is_stated
    assert str(found).endswith("of the rows left out, 2.0 % and p90 0.100 (5 ns and 1.500 GHz)")
    narrow = found._replace(predicted_p90=0.1006)
    assert not narrow.is_stated
    assert str(narrow).endswith("; the chip states a narrower p90, 0.1")
    assert found._replace(stated_p90=None).is_stated
