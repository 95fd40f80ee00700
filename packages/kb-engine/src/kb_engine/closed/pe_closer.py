"""PeCloser: closes the commands of one PE, and knows where commands of each plan go."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kb_engine.block.closable import ClosableWork
from kb_engine.block.component import ComponentBase
from kb_engine.closed.closed_commands import ClosedCommands, Shape
from kb_engine.closed.footprint import Footprint
from kb_engine.closed.pe_forms import form_of_pe, form_of_way, why_no_form
from kb_engine.closed.plan_form import PlanForm, numbered
from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.paths import MemoryPath
from kb_engine.observe.by_event import WhyNot
from kb_messages import OFFSET_BITS, PipelinePlan

_MOST_SHAPES: Final = 1 << 10
SPREAD: Final = WhyNot("an operand is spread over several memories", "place a tensor in one memory for each PE")


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


class PeCloser:
    """Closes commands of the PE with *blocks*, whose entries take *tickets*. *closed* has all closed commands."""

    def __init__(
        self, closed: ClosedCommands, fabric: Fabric, blocks: Sequence[ComponentBase[Any]], tickets: Iterator[int]
    ) -> None:
        self._closed = closed
        self._fabric = fabric
        self._tickets = tickets
        self._servers = [server for block in blocks for server in block.servers.values()]
        form = form_of_pe(blocks)
        self._form: int | WhyNot = why_no_form(blocks) if form is None else closed.number_of(form)
        self._shapes: dict[int, tuple[PipelinePlan, PlanShapes | WhyNot]] = {}
        self._ways: dict[tuple[str, tuple[int, ...]], Ways | WhyNot] = {}
        self.wants = closed.wants
        self.missed = closed.missed

    def close(self, work: ClosableWork) -> bool:
        """As Closer says."""
        command = work.command
        plan = command.shared_plan
        shape = self._shape_of(plan, command.addresses or plan.addresses)
        if isinstance(shape, WhyNot):
            self._closed.stays_open(command, shape)
            return False
        return self._closed.close(work, shape, self._tickets)

    def _shape_of(self, plan: PipelinePlan, addresses: Sequence[int]) -> Shape | WhyNot:
        if isinstance(self._form, WhyNot):
            return self._form
        known = self._shapes.get(id(plan))
        if known is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
                self._ways.clear()
            known = self._shapes[id(plan)] = plan, self._shapes_of(plan)
        shapes = known[1]
        if isinstance(shapes, WhyNot):
            return shapes
        starts = shapes.starts(addresses)
        shape = shapes.by_starts.get(starts)
        if shape is None:
            outcomes = self._closed.known.of((self._form, shapes.key, starts))
            shape = shapes.by_starts[starts] = Shape(shapes.footprint, outcomes)
        return shape

    def _shapes_of(self, plan: PipelinePlan) -> PlanShapes | WhyNot:
        """Where commands of *plan* go, or why they cannot be closed."""
        form = self._closed.form_of_plan(plan.origin)
        if isinstance(form, WhyNot):
            return form
        source = plan.stages[plan.transfers[0][0]].component if plan.transfers else ""
        owners, numbers = numbered([plan.addresses[place] >> OFFSET_BITS for place in form.transfers])
        key = source, owners
        if key not in self._ways:
            self._ways[key] = self._ways_to(source, owners)
        ways = self._ways[key]
        return ways if isinstance(ways, WhyNot) else PlanShapes(form, ways, numbers)

    def _ways_to(self, source: str, owners: Sequence[int]) -> Ways | WhyNot:
        """The ways from *source* to *owners*, or why transfers may take other times than their forms say."""
        paths = [self._fabric.path(source, owner) for owner in owners]
        if not all(isinstance(path, MemoryPath) for path in paths):
            return SPREAD
        forms = [form_of_way(path) for path in paths]
        if None in forms:
            memory = paths[forms.index(None)].memory
            cause = f"the memory {memory.node_id} is of the class {type(memory).__name__}, which does not say when"
            return WhyNot(f"{cause} it is free", "give the class `free_times`")
        number = self._closed.number_of(("ways", *forms))
        return Ways(Footprint(self._servers, paths), number, tuple([path.burst_nbytes for path in paths]))
