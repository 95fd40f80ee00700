"""A production line around a block: a source, the block among stubs that serve every other stage, and a counter."""

from __future__ import annotations

from collections import deque
from typing import Any

from msgspec import Struct

from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.gates import Gate
from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.stage_server import StageServer
from kb_engine.testing.stub_fabric import StubFabric
from kb_engine.testing.subject import PE, Subject
from kb_engine.timing.clock import Clock
from kb_messages import (
    BufferNeeds,
    DType,
    GemmCommand,
    KbError,
    Matrix,
    PipelinePlan,
    Stage,
    StageTemplate,
    StageType,
    SubmittedCommand,
    TilePlan,
    WaitReason,
    When,
)

N_TILES = 12
STUB_PS = 700
STUB_DEPTH = 2
MOST_EVENTS = 100_000
_BUFFERS = BufferNeeds(input_nbytes=1024, output_nbytes=512, register_nbytes=1024, accumulator_nbytes=1024)
_OPTIONAL = (StageType.MATH,)
_MATRIX = Matrix.packed(16, 16, DType.F16)
COMMAND = GemmCommand(a=_MATRIX, b=_MATRIX, out=_MATRIX)


class NoSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stub has no attributes."""


class Stub(ComponentBase[NoSpec]):
    """Serves the stages that the block under test does not serve, at a fixed cost."""

    spec_type = NoSpec

    def queue_depth(self, stage_type: StageType) -> int:
        """`STUB_DEPTH` for every stage type."""
        return STUB_DEPTH

    def service_ps(self, params: Any) -> int:
        """`STUB_PS` for every stage."""
        return STUB_PS


class Latch(Gate):
    """A gate that admits no token before `open`."""

    reason = WaitReason.CHANNEL

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False

    def admit(self, token: TileToken) -> bool:
        """Whether the latch is open."""
        return self.is_open

    def open(self, _: object) -> None:
        """Opens the latch for good."""
        self.is_open = True
        self.reopen()


class Line:
    """A block under test with work: `N_TILES` tiles, each with every stage, fed as fast as they are taken.

    `outs` lists (tile, stage type, t_ready, t_start, t_end, t_out) in the order in which tokens leave. The stub's
    queue for *shut*, if one is named, lets nothing in until `latch` is opened. The tiles are those of `command`.
    """

    def __init__(self, subject: Subject, shut: StageType | None = None) -> None:
        self.subject = subject
        self.clock = Clock()
        self.block = subject.build(self.clock, record=self._record)
        self.route = route_of(subject)
        self.latch = Latch()
        self.stub = Stub(NoSpec(), Context(f"{PE}.stub", self.clock, StubFabric(self.clock), 0))
        self.stub.servers = {
            each: StageServer(self.stub, each, self._record) for each in self.route if each not in self.block.servers
        }
        self.outs: list[tuple[int, StageType, int, int, int, int]] = []
        self.completed = 0
        for component in (self.block, self.stub):
            for server in component.servers.values():
                shuts = component is self.stub and server.stage_type is shut
                gates = (self.latch,) if shuts else subject.call("gates", component.gates, server.stage_type)
                self._wire(server, gates)
        self._feed_from = deque(self._tokens(0))
        self._is_fed = False

    def run(self, most_events: int = MOST_EVENTS) -> int:
        """Feeds the tiles, in the first call, and runs the clock until its queue is empty, or for *most_events*.

        Returns the number of events.
        """
        where = "begin" if type(self.block).begin is not ComponentBase.begin else "process"
        where = "service_ps" if self.block.has_pure_cost else where
        try:
            if not self._is_fed:
                self._is_fed = True
                self._feed()
            for number in range(most_events):
                if not self.clock.heap:
                    return number
                self.clock.step()
        except KbError as error:
            raise AssertionError(f"{self.subject.impl.__name__}.{where}: {error}") from error
        except Exception as error:  # anyone's code may raise anything
            text = self.subject.sentence(where, repr(error), "a service that ends")
            raise AssertionError(text) from error
        if most_events < MOST_EVENTS:
            return most_events
        self.subject.fail(where, f"{MOST_EVENTS} events and no end", f"{N_TILES} tiles served")

    def begin_again(self, first: int = 0) -> None:
        """Lets the next call of `run` feed new tiles, which have the parameters of tiles from number *first* on."""
        self._feed_from = deque(self._tokens(first))
        self._is_fed = False

    def server(self, stage_type: StageType) -> StageServer:
        """The queue for *stage_type*, the block's or the stub's."""
        return self.block.servers.get(stage_type) or self.stub.servers[stage_type]

    def left(self, stage_type: StageType) -> list[int]:
        """The tiles that have left their stage of *stage_type*, in the order of leaving."""
        return [tile for tile, kind, *_ in self.outs if kind is stage_type]

    def _wire(self, server: StageServer, gates: tuple[Gate, ...]) -> None:
        server.guard(gates)
        for component in (self.block, self.stub):
            for stage_type, target in component.servers.items():
                server.downstream[stage_type][component.node_id] = target

    def _record(self, row: tuple[int, int, int, int, int]) -> None:
        tile, index = divmod(row[0], len(self.route))
        self.outs.append((tile, self.route[index], *row[1:]))

    def _tokens(self, first: int) -> list[TileToken]:
        stages = []
        for kind in self.route:
            component = self.block if kind in self.block.servers else self.stub
            known = self.subject.params_for(kind)
            stages.append(
                [Stage(kind, component.node_id, known[(first + tile) % len(known)]) for tile in range(N_TILES)]
            )
        templates = [
            StageTemplate(stage_type=each[0].stage_type, component=each[0].component, when=When.EVERY_TILE, operands=())
            for each in stages
        ]
        plan = PipelinePlan(kind="gemm", grid=(N_TILES, 1, 1), stages=tuple(templates), buffers=_BUFFERS)
        submitted = SubmittedCommand(command_seq=0, pe=PE, line="the contract suite", command=COMMAND)
        self.command = context = CommandInFlight(submitted, plan, 0, self._done)
        tokens = []
        for tile in range(N_TILES):
            token = TileToken(
                context, TilePlan(tile, tile, 0, 0, tuple(each[tile] for each in stages)), tile * len(self.route)
            )
            token.input_at = token.output_at = token.registers_at = 0
            tokens.append(token)
        return tokens

    def _done(self, context: CommandInFlight) -> None:
        self.completed += 1

    def _feed(self) -> None:
        first = self.server(self.route[0])
        while self._feed_from:
            token = self._feed_from.popleft()
            if not first.has_room:
                first.wait_for_room(self._let_in, token)
                return
            first.put(token)

    def _let_in(self, token: TileToken) -> None:
        self.server(self.route[0]).put(token)
        self._feed()


def route_of(subject: Subject) -> list[StageType]:
    """The stages of each tile: the stages of every plan, and further stages that the block serves."""
    return [each for each in StageType if each not in _OPTIONAL or each in subject.impl.serves]
