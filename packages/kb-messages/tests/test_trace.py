import msgspec
import pytest

from kb_messages.log.trace import (
    CommandComplete,
    CommandSubmitted,
    EngineComplete,
    EngineStart,
    FabricTransfer,
    KernelEnd,
    KernelStart,
    LaunchResponse,
    LaunchSent,
    SubCommandDispatched,
    TileReady,
    TraceEvent,
)

TILE = {"op_id": 7, "command_seq": 0, "tile_id": 1, "component": "pe0.pe_gemm", "stage": "gemm"}


@pytest.mark.parametrize(
    "event",
    [
        CommandSubmitted(
            t_ps=4, command_seq=0, pe="pe0", component="pe0.pe_scheduler", line="gemm.py:7", name="gemm", n_tiles=2,
            first_op_id=3, n_ops=8, waits_ps={"queue_full": 3},
        ),
        SubCommandDispatched(t_ps=5, waits_ps={"decode": 1}, **TILE),
        TileReady(t_ps=5, stage_index=2, waits_ps={}, **TILE),
        EngineStart(t_ps=6, stage_index=2, waits_ps={"compute_slot": 1}, **TILE),
        EngineComplete(t_ps=8, stage_index=2, completes_tile=True, **TILE),
        CommandComplete(t_ps=9, command_seq=0, pe="pe0", component="pe0.pe_scheduler", line="gemm.py:7", n_tiles=2),
        FabricTransfer(t_start_ps=1, t_end_ps=2, src="pe0.pe_dma", dst="hbm", nbytes=64),
        LaunchSent(t_ps=1, launch=0, n_pes=8),
        KernelStart(t_ps=5, launch=0, pe="pe0", late_ps=2),
        KernelEnd(t_ps=9, launch=0, pe="pe0"),
        LaunchResponse(t_ps=12, launch=0, ok=True),
    ],
    ids=lambda event: type(event).__name__,
)  # fmt: skip
def test_an_event_survives_json_among_the_others(event: TraceEvent) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event), type=TraceEvent) == event
