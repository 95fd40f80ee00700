"""TracedServer and TracedTransferServer: stage servers that report to a tracer."""

from __future__ import annotations

from collections.abc import Callable

from kb_engine.block.in_flight import TileToken
from kb_engine.block.stage_server import Record, RecordWait, Service, StageServer
from kb_engine.block.transfer_server import TransferServer, has_several_under_way
from kb_engine.observe.tracer import Tracer
from kb_messages import StageType


class Traced(StageServer):
    """Base of the traced kinds of stage servers. Their timing is that of the plain kinds."""

    __slots__ = ()
    _begin_service: Callable[[TileToken, Callable[[TileToken], None]], None]
    _tracer: Tracer

    def __init__(
        self,
        component: Service,
        stage_type: StageType,
        record: Record | None,
        record_wait: RecordWait | None,
        tracer: Tracer,
    ) -> None:
        super().__init__(component, stage_type, record, record_wait)
        self._tracer = tracer
        self._begin_service = self.begin
        self.begin = self._begin_traced

    def put(self, token: TileToken) -> None:
        """Takes *token* and traces it. A token at its first stage comes from the feeder."""
        if token.index == 0:
            self._tracer.dispatched(token)
        super().put(token)

    def _begin_traced(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        self._tracer.started(token)
        self._begin_service(token, finish)

    def _finish(self, token: TileToken) -> None:
        if self.serves(token):
            self._tracer.ended(token)
        super()._finish(token)

    def _move_on(self, token: TileToken, now: int) -> None:
        turn_ps = self.turn_to_leave_ps(token)
        super()._move_on(token, now)
        token.waits = None
        self._tracer.ready(token, turn_ps - token.t_end, now - turn_ps)


class TracedServer(Traced):
    """A StageServer that reports to a tracer."""

    __slots__ = ("_begin_service", "_tracer")


class TracedTransferServer(Traced, TransferServer):
    """A TransferServer that reports to a tracer."""

    __slots__ = ("_begin_service", "_tracer")


def traced_server_of(
    component: Service,
    stage_type: StageType,
    record: Record | None,
    record_wait: RecordWait | None,
    tracer: Tracer,
) -> Traced:
    """The server of *component* for *stage_type*, with a tracer."""
    if has_several_under_way(component):
        return TracedTransferServer(component, stage_type, record, record_wait, tracer)
    return TracedServer(component, stage_type, record, record_wait, tracer)
