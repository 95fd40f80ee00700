"""The comparison of GEMMs with measured devices: what it reads, computes and refuses. All rows here are made up."""

import json
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import DType, Engine, Host, TileShape, cast, gemm_tolerance, read_tensor
from kb_plans import GemmSize, Waves
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    gemm, measured, library_gemm = map(import_module, ("gemm", "measured", "library_gemm"))

HEADER = "device,test,params,value,unit,source,licence\n"
ROW = "h100_sxm,gemm,M=64 N=64 K=64 dtype=bf16,5.0,us,made up,none\n"


@pytest.fixture
def data(tmp_path):
    def write(text):
        path = tmp_path / "rows.csv"
        path.write_text(text)
        return str(path)

    return write


def test_a_row_is_simulated_compared_and_drawn(data, tmp_path, capsys):
    picture = tmp_path / "scatter.svg"
    other = ROW.replace("K=64", "K=200").replace("5.0", "5.2") + ROW.replace(",gemm,", ",another,")
    code = gemm.main(["--data", data(HEADER + ROW + other), "--json", "--picture", str(picture)])
    found = json.loads(capsys.readouterr().out)
    (device,) = found["devices"]
    # Start-up 4.15 us, two reads of 150 ns and more, and a write of 150 ns and more.
    assert all(4.6 < row["simulated"] < 5.6 for row in found["rows"])
    assert found["rows"][0]["simulated"] < found["rows"][1]["simulated"]
    assert (device["rows"], device["fitted"]) == (2, ["25 rows of silicon.csv"] * 2)
    assert device["p90"] == pytest.approx(max(abs(row["ln_ratio"]) for row in found["rows"]))
    assert code == (0 if device["passed"] else 1)
    assert len(list(ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}circle"))) == 2


def test_a_target_that_is_missed_is_exit_code_1(data, capsys):
    assert gemm.main(["--data", data(HEADER + ROW.replace("5.0", "9.0"))]) == 1
    text = capsys.readouterr().out
    assert "MAPE" in text
    assert "start-up" in text.partition("Largest errors")[2]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("device,test\n", "no column 'params'"),
        (HEADER, "no row of the tests gemm"),
        (HEADER + ROW.replace("5.0", "fast"), "the value 'fast', which is no number"),
        (HEADER + ROW.replace("5.0", "-1"), "value '-1'"),
        (HEADER + ROW.replace("N=64", "N=0"), "sides are at least 1"),
        (HEADER + ROW.replace("N=64", "B=64"), "not with M, N, K and dtype"),
        (HEADER + ROW.replace("K=64", "K=64 batch=2"), "only M, N, K and dtype are known"),
        (HEADER + ROW.replace("h100_sxm", "h999"), "rows of h999, needs a100_sxm_80gb, h100_sxm"),
    ],
)
def test_other_data_is_refused_in_a_sentence(data, capsys, text, got):
    assert gemm.main(["--data", data(text)]) == 2
    assert got in capsys.readouterr().err


def test_a_missing_file_is_refused(tmp_path, capsys):
    assert gemm.main(["--data", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_roofline_finds_the_two_numbers_it_is_made_of():
    plain = gemm.Roofline(peak_flops=1e15, gbs=1e9)
    sizes = [("1000", "1000", "1000"), ("1000", "1000", "4000"), ("4000", "4000", "4000")]
    keys = ("M", "N", "K")
    rows = []
    for size in sizes:
        flops = 2 * np.prod([float(each) for each in size])
        params = dict(zip(keys, size, strict=True)) | {"dtype": "f16"}
        rows.append(measured.MeasuredRow("d", "gemm", params, 2.0 + 1e6 * flops / 5e14, "us"))
    # The shortest is 2 + 4 us, and the grid of constants has steps of a fiftieth of it.
    assert plain.fitted(rows).efficiency == pytest.approx(0.5, abs=0.02)
    assert plain.fitted(rows).mape(rows) < 2 < plain.mape(rows)


def test_statistics_by_hand():
    row = measured.MeasuredRow("d", "t", {}, 100.0, "us")
    comparisons = [measured.Comparison(row, 100.0 + each, 0.0) for each in range(1, 11)]
    assert measured.mape_of(comparisons) == pytest.approx(5.5)
    assert measured.p90(comparisons) == pytest.approx(np.log(1.09))


@pytest.mark.parametrize(
    ("cut", "k"), [(Waves(TileShape(64, 64, 64), 1, 0), 100), (Waves(TileShape(32, 64, 16), 3, 0), 150)]
)
def test_the_product_is_right_in_whole_sums_and_in_parts(cut, k):
    writer = MemoryLogWriter()
    engine = Engine(load_topology(measured.TOPOLOGIES / "h100.yaml"), writer)
    host = Host(engine, Path(library_gemm.__file__).parent)
    rng = np.random.default_rng(0)
    x, y = (cast(rng.standard_normal(shape, np.float32), DType.BF16) for shape in ((97, k), (k, 130)))
    a, b, c = host.tensor("a", x, "bf16"), host.tensor("b", y, "bf16"), host.empty("c", (97, 130), "bf16")
    library_gemm.launch_gemm(host, GemmSize(97, 130, k, DType.BF16, DType.BF16), a, b, c, cut)
    log = engine.close_log()
    got = read_tensor(Executor(log, engine.initial_memory, "fused").run(), c).astype(np.float64)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    bound = gemm_tolerance(expected, np.abs(x).astype(np.float32) @ np.abs(y).astype(np.float32), k, DType.BF16)
    assert (np.abs(got - expected) <= bound).all()
