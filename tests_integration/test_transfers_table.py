"""The op log's table `transfers` on every bundled chip: the parts of each DMA service add up to it, whatever it met."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter, OpLog
from kb_dataexec.analysis import all_transfers, service_parts
from kb_engine import Engine, Host
from kb_topology import Topology, loads_topology

CHIPS = Path(__file__).parents[1] / "topologies"
PES = 2
DMA, CPU, SRAM = "builtin.pe_dma, ", "builtin.pe_cpu, ", "builtin.sram, "


@cache
def chip(name: str, outstanding: int, ports: str, issue: str) -> Topology:
    text = (CHIPS / name).read_text(encoding="utf-8")
    assert DMA in text
    assert CPU in text
    text = text.replace(DMA, f"{DMA}outstanding: {outstanding}, ").replace(CPU, f"{CPU}issue: {issue}, ")
    return loads_topology(text.replace(SRAM, f"{SRAM}ports: {ports}, "), name)


def kernel(tl: Any, x: Any, ys: list[Any], program: list[Any]) -> None:
    y, values = ys[tl.program_id()], []
    for kind, rows, cols in program:
        if kind == "gemm":
            tl.composite("gemm", x[0:rows, 0:cols], x[0:cols, 0:rows], out=y[0:rows, 0:rows], tile=(16, 16, 16))
        elif kind == "store" and values:
            value = values[-1]
            tl.store(y[0 : value.shape[0], 0 : value.shape[1]], value)
        else:
            source = y if kind == "copy" else x
            values.append(tl.load(source[0:rows, 0:cols]))


def log_of(topology: Topology, program: list[Any], space: str) -> OpLog:
    host = Host(Engine(topology, MemoryLogWriter()), Path(__file__).parent)
    x = host.tensor("x", np.zeros((64, 64), np.float32), "f32")
    n_pes = min(PES, len(topology.graph.pe_ids))
    ys = [host.tensor(f"y{pe}", np.zeros((64, 64), np.float32), "f32", memory=space) for pe in range(n_pes)]
    host.launch(kernel, x, ys, program, pes=range(n_pes))
    log = host.engine.close_log()
    assert isinstance(log, OpLog)
    return log


def check(log: OpLog) -> tuple[Any, Any]:
    """The rows and the parts of all DMA services, which are complete and exact."""
    log.check("log")
    names = [log.strings[number] for number in log.ops["name"]]
    ops = log.ops[[name.startswith("dma_") for name in names]]
    ops = ops[np.argsort(ops["op_id"])]
    rows = all_transfers(log)
    parts = service_parts(log, rows)
    assert rows["op_id"].tolist() == parts["op_id"].tolist() == ops["op_id"].tolist()
    columns = np.stack([parts[name] for name in parts.dtype.names[1:]])
    assert (columns >= 0).all()
    assert (columns.sum(axis=0) == ops["t_end_ps"] - ops["t_start_ps"]).all()
    return rows, parts


BUNDLED = [path.name for path in sorted(CHIPS.glob("*.yaml")) if path.stem != "u280_hbm"]  # it has no PE_GEMM
RUNS = [(name, seed) for name in BUNDLED for seed in range(2 if name.endswith("_sip.yaml") else 10)]


@pytest.mark.parametrize(("name", "seed"), RUNS)
def test_the_parts_of_any_service_add_up_to_it(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def any_of(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    program = [
        (any_of("load", "store", "gemm", "copy"), any_of(1, 16, 33, 64), any_of(1, 16, 33, 64)) for _ in range(8)
    ]
    topology = chip(name, 1 + 2 * (seed % 2), any_of("shared", "separate"), any_of("blocking", "scoreboard"))
    has_sram = SRAM in (CHIPS / name).read_text(encoding="utf-8")
    check(log_of(topology, program, any_of("hbm", "sram", "tcm") if has_sram else "hbm"))
