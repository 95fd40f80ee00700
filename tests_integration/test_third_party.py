"""Someone else's blocks for a whole PE, from a distribution of its own: they change times and no data."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from kb_cli.benchmark import bundled
from kb_components.pe.pe_fetch_store import PeFetchStore
from kb_dataexec import Executor, MemoryLogWriter, read_log
from kb_engine import Engine, Host, read_tensor
from kb_engine.engine import Registry
from kb_engine.testing import Neighbour, component_checks
from kb_messages import DType, MathParams, StageType, WaitReason
from kb_topology import loads_topology

REASON = "`nox -s integration` installs acme-blocks beside our wheels"
acme = pytest.importorskip("acme_blocks.pe_gemm", reason=REASON)
acme_fetch_store = pytest.importorskip("acme_blocks.pe_fetch_store", reason=REASON)
acme_cpu, acme_dma, acme_math, acme_queue, acme_scheduler, acme_tcm = (
    pytest.importorskip(f"acme_blocks.pe_{name}", reason=REASON)
    for name in ("cpu", "dma", "math", "queue", "scheduler", "tcm")
)

OURS = "impl: builtin.pe_gemm, queue_depth: 4, rows: 64, cols: 64, clock_ghz: 1.0"
THEIRS = "impl: acme.pe_gemm, queue_depth: 4, side: 64, clock_ghz: 1.0"
MATH = {StageType.MATH: [MathParams(op="relu", rows=16, cols=16, dtype=DType.F32)]}
SIZES = ["-p", "M=200", "-p", "N=264", "-p", "K=136", "-p", "tile=64x128x64"]


def run(folder: Path, chip: str):
    (folder / "chip.yaml").write_text(chip)
    kb = str(Path(sys.executable).with_name("kb"))
    command = [kb, "run", "gemm", *SIZES, "--topology", "chip.yaml", "--keep", "all", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results on one_pe, with our engine and with theirs, and their folders."""
    chip = bundled.find("topologies", "one_pe").read_text()
    assert chip.count(OURS) == 1
    folders = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("theirs")
    found = [run(folder, text) for folder, text in zip(folders, (chip, chip.replace(OURS, THEIRS)), strict=True)]
    return found, [folder / result["run_dir"] for folder, result in zip(folders, found, strict=True)]


def test_time_changes_and_the_numbers_do_not(results):
    (ours, theirs), _ = results
    assert ours["latency_ps"] != theirs["latency_ps"]
    assert ours["verified"] is theirs["verified"] is True
    for name in ("ops", "bytes", "flops", "max_abs_err"):
        assert ours[name] == theirs[name]
    assert ours["outputs"] == theirs["outputs"]


def test_a_block_without_a_rate_is_named_and_the_others_have_their_roofs(results):
    (ours, theirs), _ = results
    kinds = [{each["kind"] for each in result["roofs"] if each["least_ps"] is not None} for result in (ours, theirs)]
    assert kinds[0] - kinds[1] == {"pe_gemm"}
    (unknown,) = [each for each in theirs["roofs"] if each["least_ps"] is None]
    assert (unknown["kind"], unknown["node"]) == ("acme.pe_gemm", "sip0.cube0.pe0.pe_gemm")
    assert theirs["roofline"]["compute_share"] is None


def test_a_run_says_which_version_of_their_blocks_it_had(results):
    ours, theirs = (json.loads((folder / "run.json").read_text())["versions"] for folder in results[1])
    assert theirs == {**ours, "acme-blocks": "1.0.0"}


def test_the_data_records_are_equal_but_for_their_times(results):
    def data(folder):
        records = sorted(read_log(folder / "log").records(), key=lambda record: record.op_id)
        return [
            (r.op_id, r.command_seq, r.tile_id, r.stage_index, r.kind, r.name, r.component, r.params, r.operands)
            for r in records
        ]

    _, folders = results
    ours, theirs = map(data, folders)
    assert len(ours) >= 100
    assert ours == theirs


def test_a_service_takes_what_their_formula_says(results):
    # A whole tile of 64 x 128 x 64 has one row of two blocks of B: 2 x (64 + 64 + 126) cycles of 1000 ps.
    _, folders = results
    records = read_log(folders[1] / "log").records()
    whole = next(record for record in records if record.name == "gemm" and record.tile_id == 0)
    assert whole.t_end_ps - whole.t_start_ps == 2 * (64 + 64 + 126) * 1000


def streamed(tl, a, b, bias, out):
    tl.composite("gemm", a, b, out=out, tile=(32, 32, 32), b_stream=True, epilogue=(tl.bias(bias), tl.relu()))


@pytest.mark.parametrize("registers", ["512 KiB", "10 KiB"])
def test_their_fetch_store_owns_registers_that_reads_and_fetches_claim(registers):
    """B streams to registers past their block, and an epilogue keeps registers longer; 10 KiB hold few tiles."""
    text = bundled.find("topologies", "one_pe").read_text()
    chip = text.replace("impl: builtin.pe_fetch_store", "impl: acme.pe_fetch_store, line_nbytes: 64, line_ns: 1")
    engine = Engine(loads_topology(chip.replace("512 KiB}}", f"{registers}}}}}")), MemoryLogWriter())
    fetch_store = engine.components["sip0.cube0.pe0.pe_fetch_store"]
    assert type(fetch_store) is acme_fetch_store.AcmeFetchStore
    assert not isinstance(fetch_store, PeFetchStore)
    host, rng = Host(engine), np.random.default_rng(0)
    a, b, bias = (rng.standard_normal(shape).astype(np.float16) for shape in ((72, 80), (80, 48), (1, 48)))
    tensors = [host.tensor(name, array, "f16") for name, array in (("a", a), ("b", b), ("bias", bias))]
    out = host.empty("out", (72, 48), "f16")
    host.launch(streamed, *tensors, out)
    log = engine.close_log()
    waited = sum(record.waits_ps[WaitReason.REGISTER_FILE] for record in log.records() if record.name == "dma_read")
    assert (waited > 0) == (registers == "10 KiB")
    found = read_tensor(Executor(log, engine.initial_memory).run(), out)
    wide = a.astype(np.float32) @ b.astype(np.float32) + bias
    np.testing.assert_allclose(found.astype(np.float32), np.maximum(wide, 0), atol=0.05)


DENSE = """\
import numpy as np
from msgspec import Struct

from kb_engine import Benchmark, DType, gemm_tolerance


def kernel(tl, a, b, bias, out):
    tl.composite("gemm", a, b, out=out, tile=(32, 32, 32), epilogue=(tl.bias(bias), tl.relu()))


class Params(Struct):
    pass


class Dense(Benchmark[Params]):
    Params = Params

    def inputs(self, p, rng):
        shapes = {"a": (72, 80), "b": (80, 48), "bias": (1, 48)}
        return {name: rng.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}

    def launch(self, host, p, tensors):
        passed = [host.tensor(name, array, "f16") for name, array in tensors.items()]
        out = host.empty("out", (72, 48), "f16")
        host.launch(kernel, *passed, out)
        return {"out": out}

    def reference(self, p, inputs):
        a, b, bias = (inputs[name].astype(np.float32) for name in ("a", "b", "bias"))
        return {"out": np.maximum(a @ b + bias, 0).astype(np.float16)}

    def flops(self, p):
        return 2 * 72 * 80 * 48

    def tolerance(self, p, inputs, expected):
        a, b, bias = (np.abs(inputs[name].astype(np.float32)) for name in ("a", "b", "bias"))
        return {"out": gemm_tolerance(expected["out"], a @ b + bias, 81, DType.F16)}
"""

SWAPS = {
    "pe_cpu": ("issue_ns: 4", "move_ns: 2, compute_ns: 6"),
    "pe_scheduler": (
        "submission_depth: 8, command_ns: 8, input_kib: 512, output_kib: 256",
        "commands: 3, input_kib: 64, output_kib: 32",
    ),
    "pe_dma": ("setup_ns: 5", "row_ns: 0.5"),
    "pe_fetch_store": ("impl: acme.pe_fetch_store,", "impl: acme.pe_fetch_store, line_nbytes: 64, line_ns: 1,"),
    "pe_gemm": ("rows: 64, cols: 64", "side: 64"),
    "pe_math": ("lanes: 128, clock_ghz: 1.0", "depth: 12, clock_ghz: 1.0"),
    "pe_tcm": ("bw_gbs: 512, latency_ns: 2", "line_nbytes: 128, line_ns: 0.5"),
}
"""For each block of a PE, the attributes on one_pe and those of the block by Acme."""
ALONE = [(name,) for name in SWAPS]
ALL_BUT_ONE = [tuple(other for other in SWAPS if other != name) for name in SWAPS]


def mixed(theirs):
    """one_pe with the blocks *theirs* by Acme."""
    chip = bundled.find("topologies", "one_pe").read_text()
    for name in theirs:
        for old, new in ((f"impl: builtin.{name}", f"impl: acme.{name}"), SWAPS[name]):
            assert chip.count(old) == 1
            chip = chip.replace(old, new)
    return chip


def with_epilogue(tl, a, b, bias, out, again):
    tl.wait(tl.composite("gemm", a, b, out=out, tile=(32, 32, 32), epilogue=(tl.bias(bias), tl.relu())))
    tl.store(again, tl.load(out))


def run_mixed(theirs):
    """What a GEMM with an epilogue, a load and a store take, and what they leave in memory."""
    engine = Engine(loads_topology(mixed(theirs)), MemoryLogWriter())
    for name in SWAPS:
        maker = "acme_blocks" if name in theirs else "kb_components"
        lineage = {
            each.__module__.partition(".")[0] for each in type(engine.components[f"sip0.cube0.pe0.{name}"]).__mro__
        }
        assert maker in lineage
        assert len(lineage & {"acme_blocks", "kb_components"}) == 1
    host, rng = Host(engine), np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float16) for shape in ((72, 80), (80, 48), (1, 48))]
    tensors = [host.tensor(name, array, "f16") for name, array in zip("abc", arrays, strict=True)]
    outs = [host.empty(name, (72, 48), "f16") for name in ("out", "again")]
    result = host.launch(with_epilogue, *tensors, *outs)
    store = Executor(engine.close_log(), engine.initial_memory).run()
    return arrays, [read_tensor(store, out) for out in outs], result.end_ps - result.start_ps


@pytest.fixture(scope="module")
def built_in():
    """The run on our blocks alone."""
    return run_mixed(())


@pytest.mark.parametrize("theirs", [tuple(SWAPS), *ALONE, *ALL_BUT_ONE], ids=" ".join)
def test_any_of_the_blocks_of_a_pe_can_be_theirs(built_in, theirs):
    (a, b, bias), (out, again), latency_ps = run_mixed(theirs)
    wide = a.astype(np.float32) @ b.astype(np.float32) + bias
    np.testing.assert_allclose(out.astype(np.float32), np.maximum(wide, 0), atol=0.05)
    assert out.tobytes() == again.tobytes() == built_in[1][0].tobytes()
    assert latency_ps != built_in[2]


def test_a_slow_pe_of_their_blocks_takes_its_factor():
    """The times and rates of each block are scaled, and all else stays."""
    text = mixed(tuple(SWAPS))
    usual, slowed = (Engine(loads_topology(each)).components for each in (text, f"{text}slow: {{pe0: 4}}\n"))
    for name in SWAPS:
        before, after = (each[f"sip0.cube0.pe0.{name}"].spec for each in (usual, slowed))
        for field, value in structs.asdict(before).items():
            factor = 4 if field.endswith("_ns") else Fraction(1, 4) if field.endswith(("_ghz", "_gbs")) else 1
            assert getattr(after, field) == value * factor
    assert slowed["sip0.cube0.pe0.pe_gemm"].spec.clock_ghz == usual["sip0.cube0.pe0.pe_gemm"].spec.clock_ghz / 4


def test_a_pe_of_their_blocks_alone_is_verified(tmp_path):
    (tmp_path / "chip.yaml").write_text(mixed(tuple(SWAPS)))
    (tmp_path / "dense.py").write_text(DENSE)
    kb = str(Path(sys.executable).with_name("kb"))
    command = [kb, "run", "dense.py", "--topology", "chip.yaml", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verified"] is True


def around(tl, x, y):
    me, n = tl.program_id(), tl.num_programs()
    value = tl.load(x[me])
    for _ in range(n):
        tl.send(value, (me + 1) % n)
        value = tl.recv((me - 1) % n)
    tl.barrier()
    tl.store(y[me], value)


def messages_of(chip):
    """The rows of messages of a ring on *chip*, and the bytes that went around."""
    engine = Engine(loads_topology(chip), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    x = host.tensor("x", np.arange(8 * 64, dtype=np.float32).reshape(8, 8, 8), "f32")
    y = host.empty("y", (8, 8, 8), "f32")
    host.launch(around, x, y)
    log = engine.close_log()
    assert np.array_equal(read_tensor(Executor(log, engine.initial_memory).run(), y), np.arange(512).reshape(8, 8, 8))
    return log.tables["sends"]


def test_their_queue_changes_the_times_of_messages_and_no_data():
    ours = "impl: builtin.pe_queue, depth: 3, doorbell_ns: 2, credit_ns: 2"
    chip = bundled.find("topologies", "one_cube").read_text()
    assert chip.count(ours) == 1
    theirs = messages_of(chip.replace(ours, "impl: acme.pe_queue, slots: 2, poll_ns: 30, turn_ns: 12"))
    way_ps = 2 * 4 * 7 + 2_000  # two links of 4 mm at 7 ps a mm, and the NOC
    assert {*(theirs["t_credited_ps"] - theirs["t_freed_ps"])} == {6_000 + way_ps}
    assert {*messages_of(chip)["slot"]} == {0, 1, 2}
    assert {*theirs["slot"]} == {0, 1}
    # issue, decode, set-up, way, 256 bytes at 64 GB/s, port and half of a poll
    first = theirs[theirs["command_seq"] == theirs["command_seq"].min()]
    assert (
        int(first["t_rung_ps"][0] - first["t_credit_ps"][0]) == 4_000 + 8_000 + 5_000 + way_ps + 4_000 + 2_000 + 15_000
    )


CHECKS = [
    *component_checks(acme.AcmeGemm, {"side": 16, "clock_ghz": 0.7}),
    *component_checks(acme_fetch_store.AcmeFetchStore, {"line_nbytes": 64, "line_ns": 0.7}),
    *component_checks(acme_cpu.AcmeCpu, {"move_ns": 3, "compute_ns": 6.5}),
    *component_checks(acme_dma.AcmeDma, {"row_ns": 0.3}),
    *component_checks(acme_math.AcmeMath, {"depth": 5, "clock_ghz": 0.7}, params=MATH),
    *component_checks(acme_queue.AcmeQueue, {"slots": 2, "poll_ns": 7.5, "turn_ns": 3}),
    *component_checks(acme_tcm.AcmeTcm, {"line_nbytes": 128, "line_ns": 0.7}),
    *component_checks(
        acme_scheduler.AcmeScheduler,
        {"commands": 2, "input_kib": 64, "output_kib": 64},
        neighbours=[
            Neighbour("pe_dma", acme_dma.AcmeDma, {"row_ns": 0.3}),
            Neighbour("pe_fetch_store", acme_fetch_store.AcmeFetchStore, {"line_nbytes": 64, "line_ns": 0.7}),
        ],
    ),
]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_their_blocks_hold_to_the_contract(check):
    check()


def test_it_stands_beside_the_built_in_blocks():
    names = Registry().names
    assert {f"acme.{name}" for name in SWAPS} <= set(names)
    assert {"builtin.pe_gemm", "builtin.pe_dma", "builtin.hbm_fixed"} <= set(names)
    assert [name for name in names if not name.startswith(("acme.", "builtin."))] == []


def test_attributes_are_checked_by_their_spec(tmp_path):
    text = bundled.find("topologies", "one_pe").read_text().replace(OURS, THEIRS.replace("side: 64", "side: 0"))
    (tmp_path / "chip.yaml").write_text(text)
    kb = str(Path(sys.executable).with_name("kb"))
    done = subprocess.run([kb, "topology", "check", "chip.yaml"], cwd=tmp_path, capture_output=True, text=True)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "acme" in each)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: chip.yaml:{line}:")
    assert done.stderr.endswith("$.cube.pe_template.nodes.pe_gemm.side: got 0, needs >= 1\n")
