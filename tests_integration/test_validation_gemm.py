"""The comparison of GEMMs with measured devices: what it reads, computes and refuses. All rows here are made up."""

import json
from importlib import import_module
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from kb_cli.benchmark.load import load_benchmark
from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import (
    DType,
    Engine,
    Host,
    LaunchResult,
    ProgramTimes,
    TileShape,
    cast,
    gemm_tolerance,
    read_tensor,
)
from kb_plans import GemmSize, Waves
from kb_topology import load_topology, loads_topology

ROOT = Path(__file__).parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    names = ("gemm", "measured", "library_gemm", "gemm_halves", "gemm_roofline", "wave_folding", "gemm_times")
    gemm, measured, library_gemm, gemm_halves, gemm_roofline, wave_folding, gemm_times = map(import_module, names)
    gemm_runs = import_module("gemm_runs")

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
    said = text.partition("Largest errors")[2]
    assert "Starting the kernels is " in said
    assert "The path: pe_cpu startup " in said


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("device,test\n", "no column 'params'"),
        (HEADER, "no row of the tests gemm"),
        (HEADER + ROW.replace("5.0", "fast"), "the value 'fast', which is no number"),
        (HEADER + ROW.replace("5.0", "-1"), "value '-1'"),
        (HEADER + ROW.replace("N=64", "N=0"), "sides are at least 1"),
        (HEADER + ROW.replace("N=64", "B=64"), "not with M, N, K and dtype"),
        (HEADER + ROW.replace("K=64", "K=64 layout=nt"), "only M, N, K, dtype and one batch are known"),
        (HEADER + ROW.replace("K=64", "K=64 batch=2 B=2"), "only M, N, K, dtype and one batch are known"),
        (HEADER + ROW.replace("K=64", "K=64 batch=0"), "sides are at least 1"),
        (HEADER + ROW.replace(",us,", ",ms,"), "in 'ms', and not in 'us'"),
        (HEADER + ROW.replace("h100_sxm", "h999"), "rows of h999, needs a100_sxm_80gb, h100_sxm"),
        (HEADER + ROW.replace("M=64 N=64", "M=999999 N=99999"), "got tensor c in sip0.cube0.hbm"),
    ],
)
def test_other_data_is_refused_in_a_sentence(data, capsys, text, got):
    assert gemm.main(["--data", data(text)]) == 2
    assert got in capsys.readouterr().err


def test_types_have_the_names_of_data_sheets_too(data):
    names = {"bf16": "bfloat16", "f16": "fp16", "f8e4m3": "fp8", "i8": "int8"}
    text = HEADER + "".join(ROW.replace("bf16", each) for pair in names.items() for each in pair)
    sizes = [gemm_roofline.size_of(row) for row in measured.read_rows(Path(data(text)), ("gemm",))]
    assert [size.dtype.value for size in sizes] == [name for name in names for _ in range(2)]


@pytest.mark.parametrize(("aim_s", "code"), [("60", 0), ("0", 1)])
def test_many_gemms_are_above_an_aim_or_not(capsys, aim_s, code):
    assert gemm_times.main(["--gemms", "1", "--aim", aim_s]) == code
    row, total = capsys.readouterr().out.splitlines()
    assert row.startswith("M=256 N=256 K=256 dtype=bf16 ")
    assert total.startswith("1 grid GEMMs of h100: ")


def test_the_gemms_are_the_same_every_time_and_can_all_be_read():
    h100, v100 = (load_topology(ROOT / f"topologies/devices/{name}.yaml") for name in ("h100", "v100"))
    assert len(set(gemm_times.grid(h100))) == 125
    drawn = list(islice(gemm_times.mixed(h100), 50))
    assert drawn == list(islice(gemm_times.mixed(h100), 50))
    rows = [
        measured.MeasuredRow("h100", "gemm", dict(word.split("=") for word in each.split()), 1.0, "us")
        for each in drawn
    ]
    sizes = [gemm_roofline.size_of(row) for row in rows]
    assert {size.dtype for size in sizes} == {DType.F16, DType.BF16, DType.F8E4M3}
    assert max(size.batch for size in sizes) > 1
    assert not any("f8" in each for each in islice(gemm_times.mixed(v100), 50))


def test_a_missing_file_is_refused(tmp_path, capsys):
    assert gemm.main(["--data", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_roofline_finds_the_two_numbers_it_is_made_of():
    plain = gemm_roofline.Roofline(peak_flops=1e15, gbs=1e9)
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
    ("cut", "k", "batch"),
    [
        (Waves(TileShape(64, 64, 64), 1, 0), 100, 1),
        (Waves(TileShape(32, 64, 16), 3, 0), 150, 1),
        (Waves(TileShape(64, 64, 64), 1, 0), 70, 3),
        (Waves(TileShape(64, 128, 16), 2, 0), 50, 2),
    ],
)
def test_the_product_is_right_in_whole_sums_in_parts_and_in_batches(cut, k, batch):
    writer = MemoryLogWriter()
    engine = Engine(load_topology(measured.TOPOLOGIES / "h100.yaml"), writer)
    host = Host(engine, Path(library_gemm.__file__).parent)
    rng = np.random.default_rng(0)
    x, y = (cast(rng.standard_normal(shape, np.float32), DType.BF16) for shape in ((batch, 97, k), (batch, k, 130)))
    size = GemmSize(97, 130, k, DType.BF16, DType.BF16, batch)
    flat = [host.tensor(name, each.reshape(-1, each.shape[-1]), "bf16") for name, each in (("a", x), ("b", y))]
    tensors = library_gemm.Operands(*flat, host.empty("c", (batch * 97, 130), "bf16"))
    library_gemm.launch_gemm(host, size, tensors, cut)
    log = engine.close_log()
    got = read_tensor(Executor(log, engine.initial_memory, "fused").run(), tensors.c).astype(np.float64)
    got = got.reshape(batch, 97, 130)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    bound = gemm_tolerance(expected, np.abs(x).astype(np.float32) @ np.abs(y).astype(np.float32), k, DType.BF16)
    assert (np.abs(got - expected) <= bound).all()


@pytest.mark.parametrize(
    ("name", "sizes", "chosen"),
    [
        ("h100", "M=256 N=200 K=1024", {"cache": "warm", "tile": "64x64x64", "grid": "4 x 4"}),
        ("h100", "M=500 N=1030 K=96", {"cache": "warm", "tile": "128x64x64", "grid": "4 x 17"}),
        ("h100", "M=100 N=300 K=4096", {"cache": "warm", "parts_of_k": 3, "tile": "64x64x64", "grid": "2 x 5"}),
        ("v100", "M=64 N=1024 K=4096", {"cache": "cold", "parts_of_k": 4, "tile": "64x64x64", "grid": "1 x 16"}),
    ],
)
def test_a_run_of_the_benchmark_takes_as_long_as_its_row_of_the_validation(name, sizes, chosen):
    topology = load_topology(measured.TOPOLOGIES / f"{name}.yaml")
    params = dict(pair.split("=") for pair in sizes.split())
    row = measured.MeasuredRow(name, "gemm", {**params, "dtype": "f16"}, 1.0, "us")
    validated = gemm_runs.run_gemm(topology, row)
    assert "waves" not in validated.note
    bench = load_benchmark("gemm").bench
    p = bench.Params(**{side: int(size) for side, size in params.items()})
    host = Host(Engine(topology), ROOT)
    bench.launch(host, p, bench.inputs(p, np.random.default_rng(0)))
    (launch,) = host.launches
    assert launch.response_ps - launch.call_ps == validated.took_ps
    assert host.choices == {"method": "library", "operands": "one_slice", **chosen}


@pytest.mark.parametrize("interleave", [0, 128])
def test_a_tensor_that_was_brought_into_the_caches_is_read_without_a_miss(interleave):
    """Two slices, each behind a cache of 64 lines of 64 bytes. The tensor has 48 lines, the other one 200."""
    text = (measured.TOPOLOGIES / "v100.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("      kind: hbm\n", "      kind: hbm\n      count: 2\n"),
        ("sets: 3072", "sets: 16"),
        ("ways: 16", "ways: 4"),
        ("line_nbytes: 128", "line_nbytes: 64"),
        ("wire_ps_per_mm: 0", f"wire_ps_per_mm: 0\nhbm_interleave_nbytes: {interleave}"),
        ("index: hashed", "index: modulo"),
        ("to: hbm,", 'to: "hbm[0]",'),
    ):
        assert old in text
        text = text.replace(old, new)
    (link,) = (line for line in text.splitlines() if "hbm[0]" in line)
    text += link.replace("hbm[0]", "hbm[1]") + "\n"
    host = Host(Engine(loads_topology(text), exact="check"), ROOT)
    assert host.cache_nbytes == 2 * 64 * 64
    x, big = (host.tensor(name, np.zeros((rows, 64), np.int8), "i8") for name, rows in (("x", 48), ("big", 200)))

    def misses(tensor):
        slices = [host.engine.components[f"sip0.cube0.hbm{number}"] for number in range(2)]
        before = sum(each.line_misses for each in slices)
        host.launch(lambda tl, a: [tl.load(a)].clear(), tensor, pes=[0])
        return sum(each.line_misses for each in slices) - before

    host.warm(x)
    assert misses(x) == 0
    assert misses(big) == 200
    host.warm(big, written=True)
    assert misses(big) == 200 - 64 * (2 if interleave else 1)


def result_of(n_programs, n_pes, wave_ps):
    """A launch whose programs take *wave_ps* each, after a first wave of twice as long."""
    ends = [(number // n_pes + 2) * wave_ps for number in range(n_programs)]
    programs = tuple(ProgramTimes(pe_id="pe", start_ps=0, end_ps=end) for end in ends)
    times = {"call_ps": 0, "target_start_ps": 0, "start_ps": 0, "end_ps": ends[-1], "response_ps": ends[-1] + 7}
    return LaunchResult(**times, pe_start_ps={}, pe_end_ps={}, programs=programs)


@pytest.mark.parametrize(
    ("along_m", "n_programs", "period"),
    [(30, 30, None), (1003, 1003, 4), (5, 1000, 1), (20, 1000, 2)],
)
def test_waves_that_are_not_run_take_as_long_as_the_last_ones(along_m, n_programs, period):
    grid = wave_folding.TileGrid(splits=1, m=along_m, n=n_programs // along_m, batch=1)
    asked = []

    def launch(count):
        asked.append(count)
        return result_of(count, 10, 1000)

    # 10 PEs. With 5 tiles along M, each wave begins at the first; with 20 every second; with 1003 none, and 4 count.
    skipped = 0 if period is None else n_programs // 10 - 3 - 2 * period
    folded = wave_folding.launch_folded(launch, grid, 10)
    assert (folded.n_skipped, asked) == (skipped, [n_programs - 10 * skipped])
    assert folded.took_ps == pytest.approx((-(-n_programs // 10) + 1) * 1000 + 7)


def test_more_waves_run_until_two_periods_are_equal():
    grid, asked = wave_folding.TileGrid(splits=1, m=5, n=200, batch=1), []

    def launch(count):
        asked.append(count)
        later = [ProgramTimes(pe_id="pe", start_ps=0, end_ps=each.end_ps) for each in result_of(70, 10, 1000).programs]
        programs = later + [
            ProgramTimes(pe_id="pe", start_ps=0, end_ps=8000 + 3000 * (number // 10 + 1))
            for number in range(count - 70)
        ]
        return msgspec.structs.replace(result_of(count, 10, 1000), programs=tuple(programs), response_ps=0)

    # The first wave takes 2000, six more 1000, all others 3000. The cache is said to be full after five.
    folded = wave_folding.launch_folded(launch, grid, 10, filling_waves=5)
    assert asked == [80, 160]
    assert folded == wave_folding.FoldedLaunch(84 * 3000, 84)


def test_folded_waves_take_as_long_as_waves_that_run(monkeypatch):
    text = (measured.TOPOLOGIES / "h100.yaml").read_text(encoding="utf-8")
    chip = loads_topology(text.replace("count: 132", "count: 7").replace("sets: 25600", "sets: 512"), "small.yaml")
    row = row_of(1000, 192, 100.0, batch="9")
    folded = gemm.simulate(chip, row)
    monkeypatch.setattr(wave_folding, "LEAST_WARM", 10**6)
    whole = gemm.simulate(chip, row)
    assert "waves like those before" in folded.note
    assert "waves" not in whole.note
    assert folded.simulated == pytest.approx(whole.simulated, rel=0.01)


def test_a_batch_takes_longer_than_one_product_and_shorter_than_as_many(data, capsys):
    gemm.main(["--data", data(HEADER + ROW + ROW.replace("K=64", "K=64 batch=40")), "--json"])
    one, many = (row["simulated"] for row in json.loads(capsys.readouterr().out)["rows"])
    assert one < many < 10 * one


def test_a_batch_has_two_names():
    sizes = [gemm.size_of(row_of(64, 64, 1.0, **batch)) for batch in ({"B": "3"}, {"batch": "3"}, {})]
    assert [size.batch for size in sizes] == [3, 3, 1]


def test_a_device_of_another_name_runs_on_a_named_topology(data, capsys):
    text = HEADER + ROW.replace("h100_sxm", "gh200")
    gemm.main(["--data", data(text), "--topology", "h200", "--json"])
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert (device["device"], device["topology"], device["fitted"]) == ("gh200", "h200", [])
    assert gemm.main(["--data", data(text), "--topology", "h2000"]) == 2
    assert "the topology h2000, needs one of a100" in capsys.readouterr().err


def test_halves_find_the_numbers_that_rows_were_made_with():
    sizes = [(64, 256), (64, 1024), (128, 512)]
    curves = gemm_halves.curves_of("h100", [row_of(m, k, 1.0) for m, k in sizes])
    made = [row_of(m, k, curve.predict(5.0, 1.5)) for (m, k), curve in zip(sizes, curves, strict=True)]
    startup_us, ghz = gemm_halves.fit([curve._replace(row=row) for curve, row in zip(curves, made, strict=True)])
    assert (startup_us, ghz) == pytest.approx((5.0, 1.5), rel=0.05)


def row_of(m, k, value, **batch):
    params = {"M": str(m), "N": str(m), "K": str(k), "dtype": "bf16"} | batch
    return measured.MeasuredRow("h100_sxm", "gemm", params, value, "us")
