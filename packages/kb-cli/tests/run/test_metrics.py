"""Figures of a run that is small enough to count by hand."""

import numpy as np
import pytest

from kb_cli.benchmark.bundled import find
from kb_cli.run.base.result import Traffic
from kb_cli.run.observe.metrics import measure
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.stage_tally import StageTally
from kb_cli.run.observe.usage import Usage
from kb_dataexec import MemoryLogWriter, OpLog
from kb_dataexec.log import OPS_DTYPE
from kb_engine import Engine, Host
from kb_messages import DType, TileShape
from kb_topology import load_topology

M, N, K, TILE = 32, 16, 48, TileShape(16, 16, 16)
"""2 x 1 x 3 tiles of 16 x 16 x 16."""


def kernel(tl, a, b, c):
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))


def streaming(tl, a, b, c):
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE, b_stream=True))


@pytest.fixture(scope="module")
def run():
    return run_of(kernel)


def run_of(kernel):
    plans, usage, stages = PlanTally(), Usage(), StageTally()
    engine = Engine(load_topology(find("topologies", "one_cube")), MemoryLogWriter(), [plans, usage])
    host = Host(engine)
    a, b = (host.tensor(name, np.ones(shape, np.float16), "f16") for name, shape in (("a", (M, K)), ("b", (K, N))))
    launched = host.launch(kernel, a, b, host.empty("c", (M, N), "f16"), pes=[0])
    metrics = measure(engine, [launched], plans, DType.F16, usage)
    log = engine.close_log()
    stages.look(log)
    return engine, launched, metrics, log, stages.stage_times


def test_bytes_add_up_the_tiles(run) -> None:
    _, _, metrics, *_ = run
    operands = 2 * 3 * (16 * 16 + 16 * 16) * 2  # 6 tiles, A and B of 256 elements, 2 bytes each
    result = M * N * 2
    assert metrics.traffic == {
        "hbm": Traffic(read=operands, write=result),
        "sram": Traffic(read=0, write=0),
        "tcm": Traffic(read=operands + result, write=operands + result),
        "reg": Traffic(read=result, write=operands),
    }


def test_streamed_tiles_are_written_to_registers_alone() -> None:
    _, _, metrics, *_ = run_of(streaming)
    half = 2 * 3 * 16 * 16 * 2  # of A, and of B
    result = M * N * 2
    assert metrics.traffic == {
        "hbm": Traffic(read=2 * half, write=result),
        "sram": Traffic(read=0, write=0),
        "tcm": Traffic(read=half + result, write=half + result),
        "reg": Traffic(read=result, write=2 * half),
    }


def test_stages_are_counted_once(run) -> None:
    _, _, metrics, log, _ = run
    assert metrics.tile_stages == 6 * (2 + 1 + 1) + 2 * 2 == len(log.ops)  # 2 reads, fetch, gemm; store, write


def test_utilization_is_busy_time_over_the_launch(run) -> None:
    engine, launched, metrics, *_ = run
    span = launched.end_ps - launched.start_ps
    busy = {(s.node_id, s.stage_type.name): s.busy_ps for s in engine.servers if s.busy_ps}
    use = metrics.uses["pe_gemm"]
    assert (use.count, use.node) == (8, "sip0.cube0.pe0.pe_gemm")
    assert use.busiest == busy["sip0.cube0.pe0.pe_gemm", "GEMM"] / span
    assert use.mean == pytest.approx(use.busiest / 8, rel=1e-12)
    port = busy["sip0.cube0.pe0.pe_fetch_store", "FETCH"] + busy["sip0.cube0.pe0.pe_fetch_store", "STORE"]
    assert metrics.uses["pe_fetch_store"].busiest == port / span
    engines = {"pe_dma_read", "pe_dma_write", "pe_fetch_store", "pe_gemm", "pe_math"}
    assert set(metrics.uses) == {"hbm", "sram", "link"} | engines
    assert all(0 <= each.mean <= each.busiest <= 1 for each in metrics.uses.values())


def test_links_of_message_queues_are_in_no_mean(run) -> None:
    engine, _, metrics, *_ = run
    carrying = 8 + 8 + 2 + 8 + 8 + 1 + 8  # DMA to XBAR, XBAR to HBM, bridge; DMA, TCM, SRAM and CPU to NOC
    assert metrics.uses["link"].count == 2 * carrying == len(engine.fabric.links) - 2 * 8


def test_peaks_and_bandwidths_follow_from_the_topology(run) -> None:
    engine, _, metrics, *_ = run
    assert metrics.peak_flops == 8 * 2 * 64 * 64 * 1e9
    assert metrics.bandwidth_gbs == {"hbm": 819.2, "sram": 256.0, "reg": 8 * 512.0}
    assert measure(engine, [], PlanTally(), DType.I64, Usage()).peak_flops is None
    assert measure(engine, [], PlanTally(), None, Usage()).peak_flops is None


def test_stage_times_are_the_columns_of_the_log(run) -> None:
    *_, log, stage_times = run
    ops = log.ops
    for stage, times in stage_times.items():
        mine = ops[ops["name"] == log.strings.index(stage)]
        assert times["service"] == int((mine["t_end_ps"] - mine["t_start_ps"]).sum())
        assert times["queue_full"] == int((mine["t_out_ps"] - mine["t_end_ps"]).sum())
        assert times["channel"] == int(mine["wait_channel_ps"].sum())
    whole = sum(sum(times.values()) for times in stage_times.values())
    assert whole == int((ops["t_out_ps"] - ops["t_ready_ps"]).sum())


def test_stages_stand_in_the_order_of_a_pipeline_and_other_ops_behind_them() -> None:
    names = ["", "host_write", "gemm", "dma_write", "a_move", "dma_read"]
    rows = np.zeros(5, OPS_DTYPE)
    rows["name"] = [1, 2, 3, 4, 5]
    tally = StageTally()
    tally.look(OpLog(rows[:2], [], names))
    tally.look(OpLog(rows[2:], [], names))
    assert list(tally.stage_times) == ["dma_read", "gemm", "dma_write", "a_move", "host_write"]
