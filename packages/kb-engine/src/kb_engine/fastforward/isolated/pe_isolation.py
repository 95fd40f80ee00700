"""PeIsolation: closes the commands of one PE, and knows where commands of each plan go."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kb_engine.block.component import ComponentBase
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import IsolableWork
from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.paths import MemoryPath
from kb_engine.fastforward.isolated import isolated_commands
from kb_engine.fastforward.isolated.footprint import Footprint
from kb_engine.fastforward.isolated.isolated_commands import IsolatedCommands, Shape
from kb_engine.fastforward.isolated.pe_forms import PlanForm, form_of_pe, form_of_way, numbered, why_no_form
from kb_engine.observe.slow_path import COMMANDS, SkipRefusal, SlowPathReasons
from kb_messages import OFFSET_BITS, PipelinePlan

_MOST_SHAPES: Final = 1 << 10
SPREAD: Final = SkipRefusal("an operand is spread over several memories", "place a tensor in one memory for each PE")


class Ways(NamedTuple):
    """The ways from a DMA to some memories, their forms, and the bytes of a burst of each memory."""

    footprint: Footprint
    forms: Hashable
    bursts: tuple[int, ...]


class PlanShapes:
    """Where commands of one plan, at whichever addresses in the same memories, go.

    Their shapes are by where in a burst their writes start. *numbers* are those of the memories of the transfers among
    those of *ways*.
    """

    __slots__ = ("_writes", "by_starts", "footprint", "key")

    def __init__(self, form: PlanForm, ways: Ways, numbers: tuple[int, ...]) -> None:
        self.footprint = ways.footprint
        self.key: Hashable = form.number, ways.forms, numbers
        self.by_starts: dict[tuple[int, ...], Shape] = {}
        self._writes = [(place, ways.bursts[numbers[transfer]]) for transfer, place in form.writes]

    def starts(self, addresses: Sequence[int]) -> tuple[int, ...]:
        """Where in a burst each write of a command at *addresses* starts: one that is interrupted is cut between."""
        return tuple([addresses[place] % nbytes for place, nbytes in self._writes])


class PeIsolation:
    """Closes commands of the PE with *blocks*, whose entries take *event_order*. *closed* has all closed commands."""

    def __init__(
        self, closed: IsolatedCommands, fabric: Fabric, blocks: Sequence[ComponentBase[Any]], event_order: Iterator[int]
    ) -> None:
        self._closed = closed
        self._fabric = fabric
        self._event_order = event_order
        self._servers = [server for block in blocks for server in block.servers.values()]
        form = form_of_pe(blocks)
        self._form: int | SkipRefusal = why_no_form(blocks) if form is None else closed.number_of(form)
        self._shapes: dict[int, tuple[PipelinePlan, PlanShapes | SkipRefusal]] = {}
        self._ways: dict[tuple[str, tuple[int, ...]], Ways | SkipRefusal] = {}
        self.wants = closed.wants
        self.missed = closed.missed

    def isolate(self, work: IsolableWork) -> bool:
        """As Closer says."""
        command = work.command
        plan = command.shared_plan
        shape = self._shape_of(plan, command.addresses or plan.addresses)
        if isinstance(shape, SkipRefusal):
            self._closed.takes_slow_path(command, shape)
            return False
        return self._closed.isolate(work, shape, self._event_order)

    def _shape_of(self, plan: PipelinePlan, addresses: Sequence[int]) -> Shape | SkipRefusal:
        if isinstance(self._form, SkipRefusal):
            return self._form
        known = self._shapes.get(id(plan))
        if known is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
                self._ways.clear()
            known = self._shapes[id(plan)] = plan, self._shapes_of(plan)
        shapes = known[1]
        if isinstance(shapes, SkipRefusal):
            return shapes
        starts = shapes.starts(addresses)
        shape = shapes.by_starts.get(starts)
        if shape is None:
            outcomes = self._closed.known.of((self._form, shapes.key, starts))
            shape = shapes.by_starts[starts] = Shape(shapes.footprint, outcomes)
        return shape

    def _shapes_of(self, plan: PipelinePlan) -> PlanShapes | SkipRefusal:
        """Where commands of *plan* go, or why they cannot be closed."""
        form = self._closed.form_of_plan(plan.origin)
        if isinstance(form, SkipRefusal):
            return form
        source = plan.stages[plan.transfers[0][0]].component if plan.transfers else ""
        owners, numbers = numbered([plan.addresses[place] >> OFFSET_BITS for place in form.transfers])
        key = source, owners
        if key not in self._ways:
            self._ways[key] = self._ways_to(source, owners)
        ways = self._ways[key]
        return ways if isinstance(ways, SkipRefusal) else PlanShapes(form, ways, numbers)

    def _ways_to(self, source: str, owners: Sequence[int]) -> Ways | SkipRefusal:
        """The ways from *source* to *owners*, or why transfers may take other times than their forms say."""
        paths = [self._fabric.path(source, owner) for owner in owners]
        if not all(isinstance(path, MemoryPath) for path in paths):
            return SPREAD
        forms = [form_of_way(path) for path in paths]
        if None in forms:
            memory = paths[forms.index(None)].memory
            cause = f"the memory {memory.node_id} is of the class {type(memory).__name__}, which does not say when"
            return SkipRefusal(f"{cause} it is free", "give the class `free_times`")
        number = self._closed.number_of(("ways", *forms))
        return Ways(Footprint(self._servers, paths), number, tuple([path.burst_nbytes for path in paths]))


ISSUES_AHEAD: Final = SkipRefusal(
    "the PE_CPU issues commands before earlier ones are done",
    "nothing, unless the chip may have `issue: blocking`, which is another chip with other times",
)


class NoIsolation:
    """Notes in *reasons*, with *why*, each command that is worth closing."""

    def __init__(self, why: SkipRefusal, reasons: SlowPathReasons) -> None:
        self._why = why
        self._reasons = reasons

    def wants(self, command: CommandInFlight) -> bool:
        """As Closer says."""
        self.missed(command)
        return False

    def missed(self, command: CommandInFlight) -> None:
        """As Closer says."""
        if command.shared_plan.n_stages >= isolated_commands.LEAST_ISOLATED_STAGES:
            self._reasons.note(COMMANDS, "", self._why._replace(line=command.submitted.line), 1)

    def isolate(self, work: IsolableWork) -> bool:
        """As Closer says."""
        return False
