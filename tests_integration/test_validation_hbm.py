"""The comparison of the banked HBM with a measured part meets what the timings say, and says what it needs."""

import json
from importlib import import_module
from pathlib import Path

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks/validation")
    hbm = import_module("hbm")

QUANTITIES = (
    "idle read latency page hit",
    "idle read latency page closed",
    "idle read latency page miss",
    "sequential read throughput one pseudo-channel",
)
# Cycles of 450 MHz. Hit: RL 7, data 1, and 88.8 ns, which end at the 40th edge: 48 cycles. Closed: tRCD of 14 ns, 7
# cycles, more; miss: tRP, 7 again. Throughput: 32 bytes a cycle, without tRP + tRFC of 7 + 117 cycles in 1755.
LATENCIES_NS = tuple(cycles / 0.45 for cycles in (48, 55, 62))
THROUGHPUT_GBS = 14.4 * (1 - 124 / 1755)


@pytest.fixture
def main(monkeypatch, tmp_path):
    """Runs the script without its tables, on a CSV of *text*; gives the exit code and the CSV's path."""

    def run(text, *options):
        path = tmp_path / "m.csv"
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr("sys.argv", ["hbm.py", str(path), *options])
        monkeypatch.setattr(hbm, "tables", list)
        return hbm.main(), path

    return run


def csv_of(*values):
    rows = [f"{quantity},HBM2 (U280),{value}" for quantity, value in zip(QUANTITIES, values, strict=True)]
    return "\n".join(["quantity,memory,value", *rows, "idle read latency page hit,another,1"])


def test_the_simulation_gives_what_the_timings_say(main, capsys):
    code, _ = main(csv_of(*LATENCIES_NS, THROUGHPUT_GBS), "--json")
    comparisons = json.loads(capsys.readouterr().out)["comparisons"]
    assert code == 0
    assert [each["quantity"] for each in comparisons] == list(QUANTITIES)
    simulated = [each["simulated"] for each in comparisons]
    assert simulated[:3] == pytest.approx(LATENCIES_NS, abs=0.001)
    assert simulated[3] == pytest.approx(THROUGHPUT_GBS, rel=0.005)  # the first latency, and rows that refresh closed


def test_a_missed_target_is_a_failure(main, capsys):
    code, _ = main(csv_of(*LATENCIES_NS[:2], 1.03 * LATENCIES_NS[2], THROUGHPUT_GBS))
    assert code == 1
    assert "idle read latency page miss                        141.91     137.78 ns   -2.91 %  2 %" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("text", "got"),
    [(None, "no such file"), ("quantity,memory,value\n", "no row 'idle read latency page hit' of HBM2 (U280)")],
)
def test_without_measured_values_it_says_so(main, capsys, text, got):
    code, path = main(text)
    assert code == 2
    expected = f"{path}: got {got}, needs the measured values; pass the path of hbm2_measured.csv\n"
    assert capsys.readouterr() == ("", expected)


def test_mappings_and_strides_matter():
    stride, all_of_it = hbm.traffic.throughput_gbs, 256 * hbm.MIB
    # Every read of 64 bytes opens a row of one bank: tRAS 16 + tRP 7 cycles. Both groups' bursts go in parallel.
    assert stride(16 * hbm.KIB, 64, all_of_it, 512) == pytest.approx(64 / (23 / 0.45) * (1 - 124 / 1755), rel=0.02)
    # Bursts of one bank group are two cycles apart.
    assert stride(64, 64, all_of_it, 2048, "14R-2BG-2B-5C") == pytest.approx(THROUGHPUT_GBS / 2, rel=0.02)
