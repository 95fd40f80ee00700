"""ComponentBase, the base class of every hardware block, and Context, a block's view of the simulation.

A block states the cost of a stage as a pure function, `service_ps(params)`. A block that uses other resources overrides
`process` (a SimPy generator) or `begin` (callbacks) instead. The stage servers do the rest: queues, order, backpressure
and op records.

Design: docs/design/processing-element.md
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Generator, Iterator
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from kb_engine.block.block_directory import BlockDirectory
from kb_engine.block.gates import Gate, WiringError
from kb_engine.block.in_flight import TileToken
from kb_engine.block.stage_server import StageServer
from kb_engine.block.state_visitor import State, Stateful
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import PS_PER_S
from kb_messages import GemmParams, PipelinePlan, StageParams, StageType

SpecT = TypeVar("SpecT", bound=Struct)
BlockT = TypeVar("BlockT")


class Context:
    """A block's view of the simulation: its node id, the clock, the fabric, and its neighbours by role.

    A block sees no data: neither the store nor the op log. `directory` names the blocks that take messages for a SIP, a
    cube or a PE. `memory_nbytes` is the size of the node's memory, 0 without one. `event_order` gives the numbers for
    clock entries of the block (`Clock.call_at`): the numbers of its PE, or of no PE for a block outside of PEs.
    """

    __slots__ = ("_neighbours", "clock", "directory", "event_order", "fabric", "memory_nbytes", "node_id")

    def __init__(
        self,
        node_id: str,
        clock: Clock,
        fabric: Any,
        memory_nbytes: int,
        directory: BlockDirectory | None = None,
        event_order: Iterator[int] | None = None,
    ) -> None:
        self.event_order: Iterator[int] = clock.event_order if event_order is None else event_order
        self.node_id = node_id
        self.clock = clock
        self.fabric = fabric
        self.memory_nbytes = memory_nbytes
        self.directory = directory or BlockDirectory()
        self._neighbours: dict[str, list[ComponentBase[Any]]] = {}

    def add_neighbour(self, role: str, block: ComponentBase[Any]) -> None:
        """Adds the block at the end of a wire. The engine calls this for every wire that begins here."""
        self._neighbours.setdefault(role, []).append(block)

    def neighbour(self, role: str, block_type: type[BlockT]) -> BlockT:
        """The block of kind *role* at the end of a wire. Raises WiringError unless exactly one is a *block_type*."""
        wired = self._neighbours.get(role, [])
        found = [block for block in wired if isinstance(block, block_type)]
        if wired and not found:
            got = f"a wire to {wired[0].node_id}, whose {type(wired[0]).__name__} is no {block_type.__name__}"
            raise WiringError(self.node_id, got, f"a {role} that is one", f"derive it from {block_type.__name__}")
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
        """Every block that a wire leads to, in the topology's order."""
        return [block for blocks in self._neighbours.values() for block in blocks]


class ComponentBase(Stateful, ABC, Generic[SpecT]):
    """A hardware block: one node of the topology, built from its typed attributes.

    `serves` lists the stage types that the block has a queue for. `spec_type` is the Struct that the node's YAML
    attributes are checked against.

    `state` names the attributes of the class that change while the block works, and gives each a kind
    (`kb_engine.block`: MOMENT, DEADLINE, COUNT, SAME and others). The future of a simulation depends on them. A class
    that states kinds for all of its state says that its blocks can be skipped: a block's times follow from these
    attributes, from the time that passes and from the kinds of tiles, not from addresses and not from the time of day.
    A class with a pure cost and without state says so without `state`. A class with `state = ("row",)`, a tuple of
    names without kinds, or with a `begin` of its own and no `state`, has every tile simulated.

    `caches` names attributes that only remember answers, which may be forgotten at any time. `counters` names the
    attributes or properties that count the work of the block, for reports. A subclass names its own attributes alone.

    `checks_by_form` says that the refusals of `check_plan`, other than the refusals of `check_addresses`, follow from
    the Spec, the size of the node's memory, the kinds of the blocks of its PE, and the plan. They do not depend on the
    name of the PE or on addresses. Then one of several equal blocks is asked for all of them. A subclass has to state
    it anew.
    """

    __slots__ = ("clock", "context", "event_order", "node_id", "servers", "spec")

    spec_type: ClassVar[type[Struct]]
    serves: ClassVar[tuple[StageType, ...]] = ()
    state: ClassVar[State] = {}
    caches: ClassVar[tuple[str, ...]] = ()
    counters: ClassVar[tuple[str, ...]] = ()
    checks_by_form: ClassVar[bool] = False

    def __init__(self, spec: SpecT, context: Context) -> None:
        self.spec = spec
        self.context = context
        self.clock = context.clock
        self.event_order = context.event_order
        self.node_id = context.node_id
        self.servers: dict[StageType, StageServer] = {}

    def connect(self) -> None:
        """Finds neighbours. Called once, after every block exists."""

    def queue_depth(self, stage_type: StageType) -> int:
        """Tokens that may wait in front of this block for *stage_type*, besides the token in service."""
        return int(getattr(self.spec, "queue_depth", 1))

    def gates(self, stage_type: StageType) -> tuple[Gate, ...]:
        """The gates that a token must pass, in order, before its service starts. Asked once, after `connect`."""
        return ()

    def check_plan(self, plan: PipelinePlan) -> None:
        """Raises PlanError when this block can never serve *plan*. Called before a command is submitted.

        With `checks_by_form`, a block equal to one that took an equal plan is asked for `check_addresses` alone.
        """

    def check_addresses(self, plan: PipelinePlan) -> None:
        """Raises PlanError when this block can never serve *plan* at its addresses: a part of `check_plan`."""

    def service_ps(self, params: StageParams) -> int:
        """Picoseconds a stage holds this block. Pure: no clock, no state."""
        raise NotImplementedError(f"{type(self).__name__} serves no stage by a pure cost")

    def service_parts(self, params: StageParams) -> dict[str, int]:
        """`service_ps(params)` split into named picoseconds, which add up to it. Pure. By default one part."""
        return {"service": self.service_ps(params)}

    def least_ps(self, stage_type: StageType, params: StageParams) -> Fraction | None:
        """The picoseconds that the work of a stage takes at the block's full rate; None where no full rate is known.

        The block is held at least so long by each such stage: latencies, idle lanes and rounding come on top. Pure,
        and for reports alone. By default a GEMM takes 2 m n k operations over `peak_flops(dtype)`, in operations a
        second, of a block that has this method; the slower of the two operand types counts.
        """
        peak_flops = getattr(self, "peak_flops", None)
        if peak_flops is None or not isinstance(params, GemmParams):
            return None
        rate = min(Fraction(float(peak_flops(dtype))) for dtype in (params.dtype, params.dtype_b))
        return 2 * params.m * params.n * params.k * PS_PER_S / rate if rate else None

    def counts(self) -> dict[str, int]:
        """The value of each of the block's `counters` so far, by name; counters of base classes come first."""
        return {
            name: getattr(self, name) for owner in type(self).__mro__[::-1] for name in vars(owner).get("counters", ())
        }

    def alone_ps(self, stage_type: StageType, params: StageParams) -> tuple[int, int, int]:
        """How long a stage takes with nothing else under way, in picoseconds.

        The second number says for how long the stage keeps the next one of its type waiting, and the third for how long
        it occupies a memory behind the fabric. Pure, and for estimates alone: a scheduler chooses tiles by them.
        Override it where the cost is not pure; otherwise the stage counts as free.
        """
        cost_ps = self.service_ps(params) if self.has_pure_cost else 0
        return cost_ps, cost_ps, 0

    def process(self, token: TileToken) -> Generator[Any, Any, None]:
        """A SimPy process that serves *token*. Override it where the cost depends on other resources."""
        raise NotImplementedError(f"{type(self).__name__} has no process")

    def begin(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        """Starts serving *token* now and calls *finish* with it at the end. Override it to use callbacks throughout."""
        process = self.clock.process(self.process(token))
        assert process.callbacks is not None
        process.callbacks.append(lambda _: finish(token))

    @property
    def has_pure_cost(self) -> bool:
        """Whether `service_ps` is the whole cost, so that a service takes one event and no process."""
        own = type(self)
        return own.begin is ComponentBase.begin and own.process is ComponentBase.process
