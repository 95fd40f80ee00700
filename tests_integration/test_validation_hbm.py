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


HEADER = "device,test,params,value,unit,source,licence\n"
HIT = "u280_ddr4,dram_idle_latency,page=hit,73.3,ns,made up,none\n"
STREAM = "u280_hbm2,dram_throughput,stride=64 nbytes=64 working_set=1048576,13.3,GB/s,made up,none\n"


@pytest.fixture
def rows(monkeypatch, tmp_path):
    """Runs the script on measured rows; gives the exit code."""

    def run(text, *options):
        path = tmp_path / "rows.csv"
        path.write_text(text)
        monkeypatch.setattr("sys.argv", ["hbm.py", "--data", str(path), *options])
        return hbm.main()

    return run


def test_rows_of_a_ddr4_by_hand(rows, capsys, tmp_path):
    pages = [HIT, HIT.replace("hit,73.3,ns", "closed,27,cycles at 300 MHz"), HIT.replace("hit,73.3", "miss,106.6")]
    code = rows(HEADER + "".join(pages), "--json", "--picture", str(tmp_path / "scatter.svg"))
    found = json.loads(capsys.readouterr().out)
    # Cycles of 300 MHz. Hit: RL 5, data 1 and 53.3 ns, which end at the 22nd edge. tRCD and tRP of 14.17 ns: 5 each.
    assert [row["simulated"] for row in found["rows"]] == pytest.approx([22 / 0.3, 27, 32 / 0.3], abs=0.01)
    assert (code, found["devices"][0]["fitted"]) == (0, ["3 rows of hbm2_measured.csv"])
    assert "<circle" in (tmp_path / "scatter.svg").read_text()


def test_a_row_of_throughput_is_explained(rows, capsys):
    assert rows(HEADER + STREAM.replace("13.3", "11.0")) == 1
    text = capsys.readouterr().out
    assert "u280_hbm2: 1 rows, p90" in text
    assert "of the bursts, hits" in text.partition("Largest errors")[2]
    assert "the bus has 14.4 GB/s" in text


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("", "no row of the tests"),
        (HIT.replace("u280_ddr4", "u999"), "rows of u999, needs u280_hbm2"),
        (HIT.replace("page=hit", "page=open"), "needs page=hit|closed|miss"),
        (HIT.replace(",ns,", ",us,"), "not in 'ns' or 'cycles at N MHz'"),
        (STREAM.replace("nbytes=64", "nbytes=65"), "needs nbytes up to the stride"),
        (STREAM.replace("nbytes=64 ", ""), "needs stride, nbytes and working_set"),
        (STREAM.replace("GB/s", "MB/s"), "not in 'GB/s'"),
    ],
)
def test_other_rows_are_refused_in_a_sentence(rows, capsys, text, got):
    assert rows(HEADER + text) == 2
    assert got in capsys.readouterr().err


def test_addresses_follow_the_mapping():
    port = hbm.traffic.Port()
    # 14R-1BG-2B-5C-1BG in bursts of 32 bytes: from below a bit of the group, 5 of the column, 2 of the bank, one more.
    assert [port.address(**{name: 1}) for name in ("BG", "C", "B", "R")] == [32, 64, 2048, 16384]
    assert port.address(BG=2) == 8192
    assert (port.size("BG"), port.size("B"), port.size("C")) == (4, 4, 32)


def test_mappings_and_strides_matter():
    stride, all_of_it = hbm.traffic.throughput_gbs, 256 * hbm.MIB
    # Every read of 64 bytes opens a row of one bank: tRAS 16 + tRP 7 cycles. Both groups' bursts go in parallel.
    assert stride(16 * hbm.KIB, 64, all_of_it, 256) == pytest.approx(64 / (23 / 0.45) * (1 - 124 / 1755), rel=0.02)
    # Bursts of one bank group are two cycles apart.
    assert stride(64, 64, all_of_it, 1024, "14R-2BG-2B-5C") == pytest.approx(THROUGHPUT_GBS / 2, rel=0.02)
