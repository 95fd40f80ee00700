import msgspec
import pytest

from kb_messages.trace import CommandComplete, CommandSubmitted, FabricTransfer, TraceEvent


@pytest.mark.parametrize(
    "event",
    [
        CommandSubmitted(t_ps=4, command_seq=0, pe="pe0", line="gemm.py:7", name="gemm"),
        CommandComplete(t_ps=9, command_seq=0, pe="pe0"),
        FabricTransfer(t_start_ps=1, t_end_ps=2, src="pe0.pe_dma", dst="hbm", nbytes=64),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_survives_json_among_the_others(event: TraceEvent) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event), type=TraceEvent) == event
