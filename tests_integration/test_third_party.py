"""Someone else's GEMM engine, from a distribution of its own: a change of timing, and of nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kb_cli.benchmark import bundled
from kb_dataexec import read_log
from kb_engine.engine import Registry
from kb_engine.testing import component_checks

acme = pytest.importorskip("acme_blocks.pe_gemm", reason="`nox -s integration` installs acme-blocks beside our wheels")

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


@pytest.mark.parametrize("check", component_checks(acme.AcmeGemm, {"side": 16, "clock_ghz": 0.7}), ids=str)
def test_their_engine_holds_to_the_contract(check):
    check()


def test_it_stands_beside_the_built_in_blocks():
    names = Registry().names
    assert "acme.pe_gemm" in names
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
