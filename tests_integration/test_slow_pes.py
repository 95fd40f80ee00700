"""Chips with slow PEs: no means of speed gives a slow PE the times of a quick one, or the other way round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chip_specs import changed_chip, chip_spec
from fast_forward import isolated_of, least_stages

from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape

SIDE = 64
GEMM_CYCLES = 4 * 4 * 4 * (16 + 64 + 64 - 2)
"""Tiles of 16 x 16 x 16 of a product of 64 x 64 x 64: 16 steps, and once the skew of an array of 64 x 64 at 1 GHz."""


def products(tl: Language, tensors: list[list[TensorRef]]) -> None:
    """Each PE multiplies its own matrices twice."""
    a, b, c = tensors[tl.program_id()]
    for _ in range(2):
        tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))


def rows(tl: Language, tensors: list[list[TensorRef]]) -> None:
    """A program of a grid: a function of some rows of one of the matrices."""
    a, _, c = tensors[tl.program_id() % len(tensors)]
    at = tl.program_id() // len(tensors) * 16
    tl.store(c[at : at + 16], tl.exp(tl.load(a[at : at + 16])))


def run(base: str, slow: dict[str, float], exact: Any, kernel: Callable[..., None], grid: int | None) -> Any:
    """The digest of a launch on all PEs, its end at each PE, and the engine."""
    spec = chip_spec(base)
    topology = changed_chip({"slow": slow, **spec} if slow else spec)
    engine = Engine(topology, MemoryLogWriter(), exact=exact)
    host = Host(engine, Path(__file__).parent)
    zeros = np.zeros((SIDE, SIDE), np.float16)
    tensors = [
        [host.tensor(name, zeros, DType.F16, slices=[host.hbm_slice_of(pe)]) for name in "abc"]
        for pe in range(len(engine.pes))
    ]
    with least_stages(8):
        result = host.launch(kernel, tensors, **({"pes": range(len(engine.pes))} if grid is None else {"grid": grid}))
    log = engine.close_log()
    assert log is not None
    return str(log.digest), result, engine


def gemm_ps(engine: Engine) -> dict[str, int]:
    """The time in service of each GEMM array, by PE."""
    return {
        server.node_id.rpartition(".")[0]: server.busy_ps
        for server in engine.servers
        if server.stage_type.name == "GEMM"
    }


def kernel_ps(result: Any) -> dict[str, int]:
    """The time from the start to the end of the kernel, by PE."""
    return {pe: end_ps - result.pe_start_ps[pe] for pe, end_ps in result.pe_end_ps.items()}


CASES = [
    ("one_cube", {"pe3": 1.5}, "sip0.cube0.pe3"),
    ("one_sip", {"cube5.pe3": 1.5}, "sip0.cube5.pe3"),
]


@pytest.mark.parametrize(("base", "slow", "pe"), CASES, ids=["8 PEs", "128 PEs"])
def test_one_slow_pe_takes_no_result_of_a_quick_one(base: str, slow: dict[str, float], pe: str) -> None:
    found = {exact: run(base, slow, exact, products, None) for exact in ("isolated", "events", "check")}
    assert len({digest for digest, _, _ in found.values()}) == 1
    digest, result, engine = found["isolated"]
    isolated = isolated_of(engine)
    assert isolated is None or isolated.n_reused >= len(engine.pes)
    assert gemm_ps(engine) == {each: 2 * (1500 if each == pe else 1000) * GEMM_CYCLES for each in engine.pes}
    usual_digest, usual, _ = run(base, {}, "isolated", products, None)
    times, usual_times = kernel_ps(result), kernel_ps(usual)
    assert digest != usual_digest
    assert times.pop(pe) > max(times.values())
    assert times == {each: ps for each, ps in usual_times.items() if each != pe}


@pytest.mark.parametrize(("base", "slow", "pe"), CASES, ids=["8 PEs", "128 PEs"])
def test_programs_of_a_grid_on_a_slow_pe(base: str, slow: dict[str, float], pe: str) -> None:
    grid = 4 * (8 if base == "one_cube" else 128)
    slow = dict.fromkeys(slow, 20)
    found = {exact: run(base, slow, exact, rows, grid) for exact in ("isolated", "events", "check")}
    assert len({digest for digest, _, _ in found.values()}) == 1
    engine = found["isolated"][2]
    served = {each.node_id.rpartition(".")[0]: each.served for each in engine.servers if each.stage_type.name == "MATH"}
    assert sum(served.values()) == grid
    assert served[pe] < max(served.values())


def message_ps(slow: dict[str, float]) -> int:
    """The time of a message of 16 KiB from pe0 to pe1 of `one_cube`, from the call to the doorbell."""

    def kernel(tl: Language) -> None:
        if tl.program_id() == 0:
            tl.send(tl.full((1, 4096), 1.0, "f32"), 1)
        else:
            tl.free(tl.recv(0))

    writer = MemoryLogWriter()
    engine = Engine(changed_chip({"slow": slow, **chip_spec("one_cube")}), writer)
    Host(engine, Path(__file__).parent).launch(kernel, pes=[0, 1])
    engine.close_log()
    (sent,) = writer.close().table("sends")
    return int(sent["t_rung_ps"] - sent["t_credit_ps"])


@pytest.mark.parametrize(
    ("slow", "ns"),
    [
        ({"pe2": 1000}, 4 + 8 + 5 + 2.056 + 16384 / 64 + 2 + 2),
        ({"pe0": 2}, 2 * (4 + 8 + 5) + 2.056 + 16384 / 64 + 2 + 2),  # issue, decoding and set-up are the sender's
        ({"pe1": 2}, 4 + 8 + 5 + 2.056 + 16384 / 64 + 2 * (2 + 2)),  # latency of the port and doorbell; 128 / 2 GB/s
        ({"pe1": 4}, 4 + 8 + 5 + 2.056 + 16384 / 32 + 4 * (2 + 2)),  # the port of 128 / 4 GB/s is the narrowest part
        ({"pe[0:2]": 4}, 4 * (4 + 8 + 5) + 2.056 + 16384 / 32 + 4 * (2 + 2)),
    ],
)
def test_a_message_takes_the_times_of_both_ends(slow: dict[str, float], ns: float) -> None:
    assert message_ps(slow) == round(ns * 1000)


def test_a_factor_of_one_gives_the_digest_of_a_chip_without_slow_pes() -> None:
    one = {"pe3": 1, "cube0.pe4": 1.0}
    for kernel, grid in ((products, None), (rows, 32)):
        assert run("one_cube", one, "isolated", kernel, grid)[0] == run("one_cube", {}, "isolated", kernel, grid)[0]


def test_all_pes_slow_is_a_slow_template() -> None:
    """The factor 2 of all PEs is the same as twice each time and half each rate of the template."""
    spec = chip_spec("one_cube")
    for node in spec["cube"]["pe_template"]["nodes"].values():
        for name, value in list(node.items()):
            if name.endswith("_ns"):
                node[name] = 2 * value
            elif name.endswith(("_ghz", "_gbs")):
                node[name] = value / 2
    nodes = spec["cube"]["pe_template"]["nodes"]
    nodes["pe_cpu"]["program_ns"], nodes["pe_dma"]["piece_ns"] = 40, 8
    both = [changed_chip(spec), changed_chip({"slow": {"pe[*]": 2}, **chip_spec("one_cube")})]
    specs = [
        {node_id: block.spec for node_id, block in Engine(topology).components.items() if ".pe" in node_id}
        for topology in both
    ]
    assert specs[0] == specs[1]
