import msgspec
import pytest

from kb_messages.trace import (
    CommandComplete,
    CommandSubmitted,
    FabricTransfer,
    KernelEnd,
    KernelStart,
    LaunchResponse,
    LaunchSent,
    TraceEvent,
)


@pytest.mark.parametrize(
    "event",
    [
        CommandSubmitted(t_ps=4, command_seq=0, pe="pe0", line="gemm.py:7", name="gemm"),
        CommandComplete(t_ps=9, command_seq=0, pe="pe0"),
        FabricTransfer(t_start_ps=1, t_end_ps=2, src="pe0.pe_dma", dst="hbm", nbytes=64),
        LaunchSent(t_ps=1, launch=0, n_pes=8),
        KernelStart(t_ps=5, launch=0, pe="pe0", late_ps=2),
        KernelEnd(t_ps=9, launch=0, pe="pe0"),
        LaunchResponse(t_ps=12, launch=0, ok=True),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_survives_json_among_the_others(event: TraceEvent) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event), type=TraceEvent) == event
