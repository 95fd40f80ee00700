"""How far a time may be from that of a device: the band by hand, and which comparison validates which run."""

import hashlib
import json
import math
from pathlib import Path

import msgspec
import pytest

from kb_cli.run.base.fidelity_band import Fidelity, fidelity_text
from kb_cli.run.observe.validated_runs import KernelOfRun, fidelity_of
from kb_topology import load_topology, loads_topology

ONE_PE = (Path(__file__).parents[4] / "topologies/one_pe.yaml").read_text(encoding="utf-8")
DIGEST = loads_topology(ONE_PE).digest
GEMM = {
    "device": "d",
    "test": "gemm",
    "p90": math.log(2),
    "rows": 10,
    "source": "gemm.py",
    "digest": DIGEST[:12],
    "kernel": "gemm",
    "equal": {"operands": ["one_slice"], "dtype": ["f16", "bf16"]},
    "ranges": {"M": [64, 4096], "alpha": [0.5, 1.5]},
    "startup": "counted",
}
DRAM = {"device": "m", "test": "dram", "p90": 0.1, "rows": 1, "source": "hbm.py", "digest": DIGEST[:12]}
FACTS = {"M": 64, "alpha": 1, "dtype": "bf16", "operands": "one_slice", "tile": None}
LIKE = KernelOfRun("gemm", bundled_as="gemm", facts=FACTS, others={"operands": "auto", "M": 512})


def chip(*validations):
    return loads_topology(f"{ONE_PE}\nfidelity: {json.dumps(validations)}\n")


def test_the_band_by_hand():
    found = fidelity_of(chip(GEMM), LIKE, 3_000_000, 1_000_000)
    # 3 us and 1 us of start-up, over and times e ** ln 2.
    assert (found.time_ns, found.low_ns, found.high_ns) == pytest.approx((4000.0, 2000.0, 8000.0))
    assert str(found) == "with start-up 4.000 us: 2.000 us to 8.000 us, as 9 of 10 of 10 gemm rows of d"
    assert (found.validated, found.kernel, found.source, found.p90) == (True, "gemm", "gemm.py", math.log(2))


def test_rows_that_leave_the_startup_out_have_a_band_around_the_latency_alone():
    found = fidelity_of(chip({**GEMM, "startup": "left out"}), LIKE, 3_000_000, 1_000_000)
    assert (found.time_ns, found.startup_ns, found.low_ns) == pytest.approx((3000.0, 0.0, 1500.0))
    assert str(found) == "1.500 us to 6.000 us, as 9 of 10 of 10 gemm rows of d"


def test_rows_that_have_a_start_up_of_their_own_have_a_band_around_the_latency_and_that():
    found = fidelity_of(chip({**GEMM, "startup": "left out", "startup_ns": 500}), LIKE, 3_000_000, 1_000_000)
    # 3 us and half a us, over and times e ** ln 2.
    assert (found.time_ns, found.startup_ns, found.low_ns) == pytest.approx((3500.0, 500.0, 1750.0))
    assert str(found) == "with start-up 3.500 us: 1.750 us to 7.000 us, as 9 of 10 of 10 gemm rows of d"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"bundled_as": ""}, "only the bundled benchmark gemm is, by 10 gemm rows of d"),
        ({"bundled_as": "linear"}, "only the bundled benchmark gemm is, by 10 gemm rows of d"),
        ({"operands": "sharded"}, "operands=sharded, not one_slice as in the 10 gemm rows of d"),
        ({"dtype": "f32"}, "dtype=f32, not f16 or bf16 as in the 10 gemm rows of d"),
        ({"M": 63}, "M=63 lies outside 64 to 4096 of the 10 gemm rows of d"),
        ({"M": 4097}, "M=4097 lies outside 64 to 4096 of the 10 gemm rows of d"),
        ({"alpha": 1.75}, "alpha=1.75 lies outside 0.5 to 1.5 of the 10 gemm rows of d"),
        ({"alpha": None}, "alpha=none lies outside 0.5 to 1.5 of the 10 gemm rows of d"),
        ({"others": {"tile": None}, "tile": "8x8x8"}, "tile=8x8x8, not the default none as in the 10 gemm rows of d"),
        (
            {"others": {"tile": msgspec.UNSET}, "tile": "8x8x8"},
            "tile=8x8x8, of which the comparison with the 10 gemm rows of d says nothing",
        ),
    ],
)
def test_one_condition_that_fails_takes_the_band_away_and_is_named(changes, why):
    fields = {name: value for name, value in changes.items() if name in KernelOfRun._fields}
    facts = {name: value for name, value in changes.items() if name not in fields}
    found = fidelity_of(chip(GEMM), LIKE._replace(facts={**FACTS, **facts}, **fields), 1000, 0)
    assert found == Fidelity(validated=False, why=why, test="gemm", device="d", rows=10, source="gemm.py")
    assert fidelity_text(found) == f" (not validated for this kernel: {why})"


@pytest.mark.parametrize("name", ["operands", "M"])
def test_a_run_without_the_fact_is_not_like_the_rows(name):
    why = f"the run has no {name}, unlike the 10 gemm rows of d"
    facts = {each: value for each, value in FACTS.items() if each != name}
    assert fidelity_of(chip(GEMM), LIKE._replace(facts=facts), 1000, 0).why == why


@pytest.mark.parametrize("edge", [64, 4096])
def test_the_bounds_of_a_range_belong_to_it(edge):
    assert fidelity_of(chip(GEMM), LIKE._replace(facts={**FACTS, "M": edge}), 1000, 0).validated


def test_a_comparison_of_a_part_of_the_chip_validates_no_run():
    found = fidelity_of(chip(DRAM), LIKE, 1000, 0)
    why = "only a part of the chip is, by 1 dram row of m"
    assert str(found) == f"not validated for this kernel: {why}"


def test_the_first_comparison_that_fits_counts_and_the_nearest_gives_the_reason():
    far, wide = {**GEMM, "kernel": "linear"}, {**GEMM, "ranges": {"M": [0, 1e9], "alpha": [0, 9]}, "p90": 5.0}
    assert fidelity_of(chip(DRAM, far, GEMM, wide), LIKE, 1000, 0).p90 == math.log(2)
    small = LIKE._replace(facts={**FACTS, "M": 1})
    assert fidelity_of(chip(DRAM, far, GEMM, wide), small, 1000, 0).p90 == 5.0
    why = "M=1 lies outside 64 to 4096 of the 10 gemm rows of d"
    assert fidelity_of(chip(far, GEMM, DRAM), small, 1000, 0).why == why


def test_a_comparison_holds_for_the_chip_that_was_compared_alone():
    changed = fidelity_of(chip({**GEMM, "digest": "0" * 12}), LIKE, 1000, 0)
    why = "the chip was changed since its gemm test against d"
    assert changed == Fidelity(validated=False, why=why, device="d", source="gemm.py")
    assert str(changed) == f"not validated: {why}"
    both = chip({**GEMM, "digest": "0" * 12}, {**GEMM, "device": "e"})
    assert fidelity_of(both, LIKE, 1000, 0).device == "e"


def own_kernel(path, **more):
    """The comparison of a benchmark's file of one's own, on `one_pe`."""
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    of_rows = {name: GEMM[name] for name in ("device", "test", "p90", "rows", "source", "digest", "startup")}
    return {**of_rows, "kernel": "small", "sha256": sha256[:16], "ranges": {"size": [1, 64]}, **more}


@pytest.fixture
def chip_file(tmp_path):
    def write(*validations):
        path = tmp_path / "chip.yaml"
        path.write_text(f"{ONE_PE}\nfidelity: {json.dumps(validations)}\n")
        return path

    return write


def test_a_file_of_ones_own_is_known_by_its_hash(bench_file, invoke, chip_file):
    bench = bench_file()
    file = chip_file(own_kernel(bench))
    assert "as 9 of 10 of 10 gemm rows of d)" in invoke("run", bench, "--topology", file).stdout
    bench.write_text(bench.read_text() + "# another file\n")
    said = invoke("run", bench, "--topology", file).stdout
    assert "(not validated for this kernel: only the benchmark small with SHA-256 " in said


def test_a_changed_chip_loses_the_band(bench_file, invoke, chip_file):
    bench = bench_file()
    file = chip_file(own_kernel(bench))
    file.write_text(file.read_text().replace("wire_ps_per_mm: 7.0", "wire_ps_per_mm: 7.5"))
    run = invoke("run", bench, "--topology", file)
    assert "(not validated: the chip was changed since its gemm test against d)" in run.stdout


def test_a_bundled_benchmark_is_known_byte_for_byte(invoke, chip_file, tmp_path):
    file = chip_file({**GEMM, "kernel": "vector_add", "equal": {}, "ranges": {"N": [1, 4096]}})
    run = ("-p", "N=1024", "--topology", file)
    assert "as 9 of 10 of 10 gemm rows of d)" in invoke("run", "vector_add", *run).stdout
    said = invoke("run", "vector_add", "-p", "dtype=f16", *run).stdout
    assert "(not validated for this kernel: dtype=f16, not the default f32 as in the 10 gemm rows of d)" in said
    copy = tmp_path / "vector_add.py"
    copy.write_bytes((Path(__file__).parents[4] / "benchmarks/vector_add.py").read_bytes())
    assert "as 9 of 10 of 10 gemm rows of d)" in invoke("run", copy, *run).stdout
    copy.write_text(copy.read_text() + "\n")
    assert (
        "(not validated for this kernel: only the bundled benchmark vector_add is, by "
        in invoke("run", copy, *run).stdout
    )


def test_a_choice_goes_before_the_parameter_of_its_name(bench_file, invoke, chip_file):
    launch = "    def launch(self, host, p, tensors):\n"
    bench = bench_file(launch, launch + '        host.chose(size="large")\n')
    stated = own_kernel(bench, ranges={}, equal={"size": ["large"]})
    assert "as 9 of 10 of 10 gemm rows of d)" in invoke("run", bench, "--topology", chip_file(stated)).stdout


def test_the_start_up_is_a_row_of_its_own_and_stands_on_the_path(bench_file, invoke, tmp_path):
    file = tmp_path / "slow.yaml"
    file.write_text(ONE_PE.replace("impl: builtin.pe_cpu,", "impl: builtin.pe_cpu, startup_ns: 2000.5,"))
    bench = bench_file()
    assert "start-up      2.001 us before the first kernel, not in the latency\n" in (
        invoke("run", bench, "--topology", file).stdout
    )
    found = json.loads(invoke("run", bench, "--topology", file, "--json").stdout)
    (startup,) = [each for each in found["where"] if each["what"] == "startup"]
    assert (found["startup_ns"], startup["ps"]) == (2000.5, 2_000_500)
    assert found["whole_ns"] == found["latency_ns"] + found["startup_ns"]
    assert "start-up" not in invoke("run", bench, "--topology", "one_pe").stdout
    launch = "host.launch(kernel, a, b, c, pes=[0])"
    twice = invoke("run", bench_file(launch, f"[{launch} for _ in range(2)]"), "--topology", file).stdout
    assert "start-up      4.001 us before the first kernel, not in the latency, 2.001 us for each launch\n" in twice


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"times": "times of a profiler"}, "; in the band, whose rows are times of a profiler\n"),
        ({}, "; in the band, whose rows are times with start-up\n"),
        ({"startup": "left out"}, ", not in the latency\n"),
        ({"ranges": {"size": [1, 2]}}, ", not in the latency\n"),
    ],
)
def test_the_row_of_the_start_up_says_whether_the_band_counts_it(bench_file, invoke, tmp_path, more, said):
    slow, bench = ONE_PE.replace("impl: builtin.pe_cpu,", "impl: builtin.pe_cpu, startup_ns: 2000.5,"), bench_file()
    stated = own_kernel(bench, digest=loads_topology(slow).digest[:12], **more)
    file = tmp_path / "slow.yaml"
    file.write_text(f"{slow}\nfidelity: {json.dumps([stated])}\n")
    (row,) = [line for line in invoke("run", bench, "--topology", file).stdout.splitlines() if "start-up  " in line]
    assert f"{row}\n".endswith(said)


def test_runs_of_older_versions_have_no_band():
    assert fidelity_text(msgspec.UNSET) == ""
    of_old = {"device": "d", "rows": 10, "source": "gemm.py", "low_ns": 1.0, "high_ns": 2.0, "p90": 0.1}
    old = msgspec.convert({"test": "gemm", "validated": True, **of_old}, Fidelity)
    assert str(old) == "not validated: an older version compared the run by its kind alone"
    none = msgspec.convert({"test": "dram", "validated": False, **dict.fromkeys(of_old)}, Fidelity)
    assert str(none) == "not validated: an older version compared the run by its kind alone"


def test_the_json_has_all_figures(bench_file, invoke):
    stated = json.loads(invoke("run", bench_file(), "--json").stdout)["fidelity"]
    names = ["test", "kernel", "time_ns", "startup_ns", "low_ns", "high_ns", "device", "rows", "p90", "source", "times"]
    assert stated == dict.fromkeys(names) | {"validated": False, "why": "no comparison of this chip with a device"}


def test_a_list_of_runs_and_a_report_show_it(bench_file, invoke, chip_file, tmp_path):
    bench = bench_file()
    file = chip_file(own_kernel(bench, p90=0.1, rows=3))
    assert load_topology(file).digest == DIGEST
    run = invoke("run", bench, "--topology", file)
    assert ", as 9 of 10 of 3 gemm rows of d)\n" in run.stdout
    assert "x 1.11 (small)" in invoke("runs").stdout
    (folder,) = (tmp_path / "kb-runs").iterdir()
    assert "as 9 of 10 of 3 gemm rows of d), " in " ".join(invoke("report", folder).stdout.split())
    found = json.loads(invoke("report", folder, "--json").stdout)
    assert found["band"].endswith(", as 9 of 10 of 3 gemm rows of d")
    assert invoke("report", folder, "-o", "page.html").exit_code == 0
    assert f"<p class='soft'>Latency on a device: {found['band']}</p>" in Path("page.html").read_text().replace(
        '"', "'"
    )
