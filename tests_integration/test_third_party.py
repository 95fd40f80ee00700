"""Someone else's GEMM engine and PE_FETCH_STORE, from a distribution of its own: they change times and no data."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kb_cli.benchmark import bundled
from kb_components.pe.pe_fetch_store import PeFetchStore
from kb_dataexec import Executor, MemoryLogWriter, read_log
from kb_engine import Engine, Host, read_tensor
from kb_engine.engine import Registry
from kb_engine.testing import component_checks
from kb_messages import WaitReason
from kb_topology import loads_topology

REASON = "`nox -s integration` installs acme-blocks beside our wheels"
acme = pytest.importorskip("acme_blocks.pe_gemm", reason=REASON)
acme_fetch_store = pytest.importorskip("acme_blocks.pe_fetch_store", reason=REASON)

OURS = "impl: builtin.pe_gemm, queue_depth: 4, rows: 64, cols: 64, clock_ghz: 1.0"
THEIRS = "impl: acme.pe_gemm, queue_depth: 4, side: 64, clock_ghz: 1.0"
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


CHECKS = [
    *component_checks(acme.AcmeGemm, {"side": 16, "clock_ghz": 0.7}),
    *component_checks(acme_fetch_store.AcmeFetchStore, {"line_nbytes": 64, "line_ns": 0.7}),
]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_their_blocks_hold_to_the_contract(check):
    check()


def test_it_stands_beside_the_built_in_blocks():
    names = Registry().names
    assert {"acme.pe_gemm", "acme.pe_fetch_store"} <= set(names)
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
