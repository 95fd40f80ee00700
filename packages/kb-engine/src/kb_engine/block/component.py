"""ComponentBase: what every hardware block is, and the one place where op records are written.

A block states the cost of a stage as a pure function, `service_ps(params)`. One that uses other resources overrides
`process` (a SimPy generator) or `begin` (callbacks) instead. Queues, order, backpressure and records are the base's.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from kb_engine.block.block_directory import Directory
from kb_engine.block.in_flight import TileToken
from kb_engine.block.stage_server import Gate, StageServer, WiringError
from kb_engine.timing.clock import Clock
from kb_messages import PipelinePlan, StageParams, StageType

SpecT = TypeVar("SpecT", bound=Struct)
BlockT = TypeVar("BlockT")


class Context:
    """What a block sees of the world: its node id, the clock, and its neighbours by role. No store, no log.

    `directory` says who takes messages for a SIP, a cube or a PE.
    """

    __slots__ = ("_neighbours", "clock", "directory", "fabric", "memory_nbytes", "node_id")

    def __init__(
        self, node_id: str, clock: Clock, fabric: Any, memory_nbytes: int, directory: Directory | None = None
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.fabric = fabric
        self.memory_nbytes = memory_nbytes
        self.directory = directory or Directory()
        self._neighbours: dict[str, list[ComponentBase[Any]]] = {}

    def add_neighbour(self, role: str, block: ComponentBase[Any]) -> None:
        """Called by the engine for every wire that begins here."""
        self._neighbours.setdefault(role, []).append(block)

    def neighbour(self, role: str, block_type: type[BlockT]) -> BlockT:
        """The block of kind *role* that a wire leads to. Raises WiringError unless there is one *block_type*."""
        found = [block for block in self._neighbours.get(role, []) if isinstance(block, block_type)]
        if len(found) != 1:
            raise WiringError(
                self.node_id,
                f"{len(found)} wires to a {role} that is a {block_type.__name__}",
                "one",
                f"add `{self.node_id.rsplit('.', 1)[-1]} -> {role}` to the wires of pe_template",
            )
        return found[0]

    @property
    def downstream(self) -> list[ComponentBase[Any]]:
        """Every block a wire leads to, in the topology's order."""
        return [block for blocks in self._neighbours.values() for block in blocks]


class ComponentBase(ABC, Generic[SpecT]):
    """A hardware block: one node of the topology, built from its typed attributes.

    `serves` lists the stage types it has a queue for; `spec_type` is the Struct its YAML attributes are checked
    against.
    """

    __slots__ = ("clock", "context", "node_id", "servers", "spec")

    spec_type: ClassVar[type[Struct]]
    serves: ClassVar[tuple[StageType, ...]] = ()

    def __init__(self, spec: SpecT, context: Context) -> None:
        self.spec = spec
        self.context = context
        self.clock = context.clock
        self.node_id = context.node_id
        self.servers: dict[StageType, StageServer] = {}

    def connect(self) -> None:
        """Called once after every block exists; look neighbours up here."""

    def queue_depth(self, stage_type: StageType) -> int:
        """Tokens that wait in front of this block for *stage_type*, the one in service not counted."""
        return int(getattr(self.spec, "queue_depth", 1))

    def gates(self, stage_type: StageType) -> tuple[Gate, ...]:
        """What a token must be granted, in order, before its service starts."""
        return ()

    def check_plan(self, plan: PipelinePlan) -> None:
        """Raise PlanError when this block can never serve *plan*. Called before a command is submitted."""

    def service_ps(self, params: StageParams) -> int:
        """Picoseconds a stage holds this block. Pure: no clock, no state."""
        raise NotImplementedError(f"{type(self).__name__} serves no stage by a pure cost")

    def process(self, token: TileToken) -> Generator[Any, Any, None]:
        """A SimPy process that serves *token*; override it where the cost depends on other resources."""
        raise NotImplementedError(f"{type(self).__name__} has no process")

    def begin(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        """Start serving *token* now and call *finish* with it at the end; override it to use callbacks throughout."""
        process = self.clock.process(self.process(token))
        assert process.callbacks is not None
        process.callbacks.append(lambda _: finish(token))

    @property
    def has_pure_cost(self) -> bool:
        """Whether `service_ps` says it all, so that a service takes one event and no process."""
        own = type(self)
        return own.begin is ComponentBase.begin and own.process is ComponentBase.process
