"""The comparison of all-reduces with measured ones: the fit by hand, and what is refused. All rows here are made up."""

import json
from importlib import import_module
from pathlib import Path

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks/validation")
    names = ("collectives", "gpu_rings", "measured")
    collectives, gpu_rings, measured = map(import_module, names)

HEADER = "device,test,params,value,unit,source,licence\n"
ROW = "dgx_a100,all_reduce,ranks=2 nbytes=64,10,us,made up,none\n"


@pytest.fixture
def data(tmp_path):
    def write(*rows):
        path = tmp_path / "rows.csv"
        path.write_text(HEADER + "".join(rows))
        return str(path)

    return write


def curve(nbytes, at_150, at_450, value=1.0):
    row = measured.MeasuredRow("dgx_a100", "all_reduce", {"ranks": "2", "nbytes": str(nbytes)}, value, "us")
    return collectives.Curve(row, (at_150, at_450))


def test_a_time_between_two_bandwidths_is_on_a_line_in_one_over_bandwidth():
    # 600 kB at 150 and 450 GB/s, and 1 us: 4 + 1 and 1.333 + 1 us.
    found = curve(600_000, 5.0, 7 / 3)
    assert [found.at(gbs) for gbs in (150, 200, 450)] == pytest.approx([5.0, 4.0, 7 / 3])


def test_the_fit_finds_the_bandwidth_and_the_constant_that_made_the_rows():
    # n kB take 7 us, and n / 200 us at 200 GB/s, between n / 150 and n / 450.
    rows = [curve(1000 * n, n / 150, n / 450, 7 + n / 200) for n in (2, 200, 2000, 20000, 60000)]
    found = collectives.fit(rows)
    assert found.gbs == pytest.approx(200, rel=0.02)
    middle = sorted(each.row.value for each in rows)[2]
    assert found.constant_us == pytest.approx(7, abs=middle / 400 + 0.2)


def test_further_bytes_of_two_ranks_take_as_long_as_the_link_for_them():
    # A rank sends half of its elements as they come, and the sums of the other half, rounded to f16.
    less, more = (gpu_rings.all_reduce_us(gpu_rings.gpus("a100", 2, 10.0), kib * 1024, "ring") for kib in (384, 768))
    link_us = 384 * 1024 / 10e3
    assert link_us <= more - less == pytest.approx(link_us, rel=0.05)


def test_rows_are_predicted_from_other_sizes(data, capsys):
    path = data(ROW, ROW.replace("nbytes=64", "nbytes=1024"), ROW.replace("nbytes=64", "nbytes=4096"))
    assert collectives.main(["--data", path, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["devices"]
    assert (found["device"], found["errors"][0]["rows"], len(found["fits"])) == ("dgx_a100", 3, 2)
    assert collectives.main(["--data", path]) == 0
    assert "dgx_a100: a link of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "options", "said"),
    [
        (ROW.replace("dgx_a100", "dgx_1"), [], "rows of dgx_1"),
        (ROW.replace("nbytes=64", "nbytes=63"), [], "elements of two bytes"),
        (ROW.replace("ranks=2", "ranks=1"), [], "needs 2 to 16 ranks"),
        (ROW.replace("ranks=2", "ranks=two"), [], "ranks=two"),
        (ROW.replace("ranks=2 ", ""), [], "needs ranks nbytes in us"),
        (ROW, [], "rows of one nbytes"),
        (ROW, ["--device", "dgx_h100"], "no row of this device and size"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(row, options, said, data, capsys):
    assert collectives.main(["--data", data(row), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_file_is_named(tmp_path, capsys):
    assert collectives.main(["--data", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err
