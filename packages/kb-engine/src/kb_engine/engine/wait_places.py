"""WaitPlaces: where every tile of a stuck simulation stands, and which queue or gate keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kb_engine.block.gates import Gate
from kb_engine.block.in_flight import TileToken
from kb_engine.block.stage_server import StageServer
from kb_messages import StageType


class WaitPlaces:
    """The tiles in all queues, by PE in command order, with the queue, gate or full queue of each."""

    def __init__(self, servers: Sequence[StageServer]) -> None:
        self._full: dict[str, list[StageServer]] = {}
        self._server: dict[int, StageServer] = {}
        self._gate: dict[int, Gate] = {}
        self._blocked_by: dict[int, StageServer] = {}
        tokens = [token for server in servers for token in self._note(server)]
        tokens.sort(key=lambda token: (token.context.submitted.command_seq, token.tile.tile_id))
        self._tokens: dict[str, list[TileToken]] = {}
        for token in tokens:
            self._tokens.setdefault(token.context.submitted.pe, []).append(token)

    def server_of(self, token: TileToken) -> StageServer:
        """The server in whose queue or service *token* is."""
        return self._server[id(token)]

    def gate_of(self, token: TileToken) -> Gate | None:
        """The gate at which *token* waits."""
        return self._gate.get(id(token))

    def queue_before(self, token: TileToken) -> StageServer | None:
        """The full queue in which *token* waits for room."""
        return self._blocked_by.get(id(token))

    def tokens_on(self, pe_id: str) -> list[TileToken]:
        """The tiles on *pe_id*, in command order."""
        return self._tokens.get(pe_id, [])

    def in_service(self, pe_id: str) -> list[TileToken]:
        """The tiles on *pe_id* whose service has begun and not ended."""
        return [
            token
            for token in self.tokens_on(pe_id)
            if self.server_of(token).serves(token) and id(token) not in self._gate and id(token) not in self._blocked_by
        ]

    def full_queues(self, pe_id: str) -> list[StageServer]:
        """The queues of *pe_id* in which some tile waits for room."""
        return self._full.get(pe_id, [])

    def holder(self, token: TileToken, holds: Any) -> TileToken | None:
        """The first other tile on *token*'s PE for which `holds(tile, stages ahead of it)` is true."""
        for other in self.tokens_on(token.context.submitted.pe):
            if other is not token and holds(other, self._ahead(other)):
                return other
        return None

    def _note(self, server: StageServer) -> list[TileToken]:
        tokens = [*server.in_front, *server.queue]
        self._server.update((id(token), server) for token in tokens)
        self._blocked_by.update((id(token), server) for _, token in server.blocked)
        if server.blocked:
            self._full.setdefault(server.blocked[0][1].context.submitted.pe, []).append(server)
        self._gate.update((id(token), gate) for gate in server.gates for _, token in gate.waiting)
        return tokens

    def _ahead(self, token: TileToken) -> frozenset[StageType]:
        """The stages of *token* that have not ended."""
        first = token.index + (id(token) in self._blocked_by or self._server[id(token)].has_served(token))
        return frozenset(stage.stage_type for stage in token.stages[first:])
