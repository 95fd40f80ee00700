"""Sharded tensors in every memory through the installed `kb`: run, verify, and the error where no link leads."""

import json
from pathlib import Path

import pytest
from python_copies import kb

from kb_cli.benchmark import bundled

BENCH = '''\
"""C = A @ B, A and C cut up over the PEs by rows, B a copy for each."""

from typing import Literal

import numpy as np
from msgspec import Struct

from kb_engine import Benchmark


def kernel(tl, a, b, c):
    mine = tl.program_id()
    tl.wait(tl.composite("gemm", a.shard(mine), b.shard(mine), out=c.shard(mine), tile=(8, 64, 64)))


class Params(Struct):
    memory: Literal["hbm", "sram", "tcm"] = "hbm"
    virtual: bool = False


class Sharded(Benchmark[Params]):
    Params = Params

    def inputs(self, p, rng):
        return {"a": rng.standard_normal((60, 64), np.float32), "b": rng.standard_normal((64, 64), np.float32)}

    def launch(self, host, p, tensors):
        a = host.tensor("a", tensors["a"], "f32", memory=p.memory, shard="row")
        b = host.tensor("b", tensors["b"], "f32", memory=p.memory, shard="replica")
        c = host.empty("c", (60, 64), "f32", memory=p.memory, shard="row")
        host.launch(kernel, *(host.map(each) if p.virtual else each for each in (a, b, c)))
        return {"c": c}

    def reference(self, p, inputs):
        return {"c": inputs["a"].astype(np.float64) @ inputs["b"]}

    def flops(self, p):
        return 2 * 60 * 64 * 64
'''
EDITS = (
    (
        "      # Assumed: a 512-byte port",
        (
            "      pe_mmu: {kind: pe_mmu, impl: builtin.pe_mmu, tlb_entries: 16, levels: 4, level_ns: 20}\n"
            "      # Assumed: a 512-byte port"
        ),
    ),
    ("      - pe_dma -> pe_fetch_store\n", "      - pe_dma -> pe_fetch_store\n      - pe_dma -> pe_mmu\n"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with sharded.py, and chip.yaml: the bundled cube with MMUs."""
    text = bundled.find("topologies", "one_cube").read_text()
    for old, new in EDITS:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "chip.yaml").write_text(text)
    (tmp_path / "sharded.py").write_text(BENCH)
    return tmp_path


def run(folder: Path, *params: str) -> dict[str, object]:
    chosen = [text for each in params for text in ("-p", each)]
    done = kb(folder, "run", "sharded.py", "--topology", "chip.yaml", "--json", *chosen)
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("memory", ["hbm", "sram", "tcm"])
def test_a_sharded_product_is_right_in_every_memory(folder: Path, memory: str) -> None:
    answer = run(folder, f"memory={memory}")
    assert answer["verified"] is True
    (result,) = (folder / "kb-runs").iterdir()
    assert kb(folder, "verify", str(result)).returncode == 0


def test_virtual_addresses_cost_time_and_change_nothing_else(folder: Path) -> None:
    physical, virtual = run(folder), run(folder, "virtual=true")
    assert virtual["verified"] is True
    assert int(str(virtual["latency_ps"])) > int(str(physical["latency_ps"]))


def test_no_link_to_another_pes_tcm_is_told_at_the_kernels_line(folder: Path) -> None:
    bench = BENCH.replace("b.shard(mine)", "b.shard((mine + 1) % 8)")
    (folder / "sharded.py").write_text(bench)
    chip = (folder / "chip.yaml").read_text()
    link = '    - {from: "pe[*].pe_tcm", to: noc, bw_gbs: 64, length_mm: 4}\n'
    assert chip.count(link) == 1
    (folder / "chip.yaml").write_text(chip.replace(link, ""))
    line = next(number for number, text in enumerate(bench.splitlines(), start=1) if "tl.composite" in text)
    done = kb(folder, "run", "sharded.py", "--topology", "chip.yaml", "--json", "-p", "memory=tcm")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"error: sharded.py:{line}: sip0.cube0.pe0.pe_dma -> sip0.cube0.pe1.pe_tcm: got no path, needs links through "
        "bridge, io_noc, noc, pcie_ep, serdes, switch, ucie, xbar; add such a link to `cube.links`; "
        "sip0.cube0.pe0.pe_dma reaches: "
    )
    assert "Traceback" not in done.stderr
