"""PeIsolation: isolates the commands of one PE, and keeps the footprints of their plans.

Design: docs/design/isolated-commands.md
"""

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
from kb_engine.fastforward.isolated.pe_forms import PlanForm, form_of_path, form_of_pe, numbered, why_no_form
from kb_engine.fastforward.refusals import SPREAD
from kb_engine.observe.slow_path import COMMANDS, SkipRefusal, SlowPathReasons
from kb_messages import OFFSET_BITS, PipelinePlan

_MOST_SHAPES: Final = 1 << 10


class PathSet(NamedTuple):
    """The paths from a DMA to some memories, as a footprint, with their forms and the bytes of a burst of each
    memory."""

    footprint: Footprint
    forms: Hashable
    bursts: tuple[int, ...]


class PlanShapes:
    """The shapes of commands of one plan, at any addresses in the same memories.

    `by_starts` has the shapes by the places in a burst where the writes start. *numbers* has, for each transfer, the
    index of its memory in *paths*.
    """

    __slots__ = ("_writes", "by_starts", "footprint", "key")

    def __init__(self, form: PlanForm, path_set: PathSet, numbers: tuple[int, ...]) -> None:
        self.footprint = path_set.footprint
        self.key: Hashable = form.number, path_set.forms, numbers
        self.by_starts: dict[tuple[int, ...], Shape] = {}
        self._writes = [(place, path_set.bursts[numbers[transfer]]) for transfer, place in form.writes]

    def starts(self, addresses: Sequence[int]) -> tuple[int, ...]:
        """Returns where in a burst each write of a command at *addresses* starts. A write is interrupted between
        bursts."""
        return tuple([addresses[place] % nbytes for place, nbytes in self._writes])


class PeIsolation:
    """Isolates commands of the PE with *blocks*, whose entries take *event_order*. *isolated* has those of all PEs."""

    def __init__(
        self,
        isolated: IsolatedCommands,
        fabric: Fabric,
        blocks: Sequence[ComponentBase[Any]],
        event_order: Iterator[int],
    ) -> None:
        self._isolated = isolated
        self._fabric = fabric
        self._event_order = event_order
        self._servers = [server for block in blocks for server in block.servers.values()]
        form = form_of_pe(blocks)
        self._form: int | SkipRefusal = why_no_form(blocks) if form is None else isolated.number_of(form)
        self._shapes: dict[int, tuple[PipelinePlan, PlanShapes | SkipRefusal]] = {}
        self._path_sets: dict[tuple[str, tuple[int, ...]], PathSet | SkipRefusal] = {}
        self.wants = isolated.wants
        self.missed = isolated.missed

    def isolate(self, work: IsolableWork) -> bool:
        """Isolates *work* now. Returns False where it has to run event by event."""
        command = work.command
        plan = command.shared_plan
        shape = self._shape_of(plan, command.addresses or plan.addresses)
        if isinstance(shape, SkipRefusal):
            self._isolated.takes_slow_path(command, shape)
            return False
        return self._isolated.isolate(work, shape, self._event_order)

    def _shape_of(self, plan: PipelinePlan, addresses: Sequence[int]) -> Shape | SkipRefusal:
        if isinstance(self._form, SkipRefusal):
            return self._form
        known = self._shapes.get(id(plan))
        if known is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
                self._path_sets.clear()
            known = self._shapes[id(plan)] = plan, self._shapes_of(plan)
        shapes = known[1]
        if isinstance(shapes, SkipRefusal):
            return shapes
        starts = shapes.starts(addresses)
        shape = shapes.by_starts.get(starts)
        if shape is None:
            results = self._isolated.cache.of((self._form, shapes.key, starts))
            shape = shapes.by_starts[starts] = Shape(shapes.footprint, results)
        return shape

    def _shapes_of(self, plan: PipelinePlan) -> PlanShapes | SkipRefusal:
        """Returns the shapes of commands of *plan*, or why the commands cannot be isolated."""
        form = self._isolated.form_of_plan(plan.origin)
        if isinstance(form, SkipRefusal):
            return form
        source = plan.stages[plan.transfers[0][0]].component if plan.transfers else ""
        owners, numbers = numbered([plan.addresses[place] >> OFFSET_BITS for place in form.transfers])
        key = source, owners
        if key not in self._path_sets:
            self._path_sets[key] = self._paths_to(source, owners)
        path_set = self._path_sets[key]
        return path_set if isinstance(path_set, SkipRefusal) else PlanShapes(form, path_set, numbers)

    def _paths_to(self, source: str, owners: Sequence[int]) -> PathSet | SkipRefusal:
        """Returns the paths from *source* to *owners*, or why the times of transfers do not follow from their forms."""
        paths = [self._fabric.path(source, owner) for owner in owners]
        if not all(isinstance(path, MemoryPath) for path in paths):
            return SPREAD
        forms = [form_of_path(path) for path in paths]
        if None in forms:
            memory = paths[forms.index(None)].memory
            cause = f"the memory {memory.node_id} is of the class {type(memory).__name__}, which does not say when"
            return SkipRefusal(f"{cause} it is free", "give the class `free_times`")
        number = self._isolated.number_of(("paths", *forms))
        return PathSet(Footprint(self._servers, paths), number, tuple([path.burst_nbytes for path in paths]))


ISSUES_AHEAD: Final = SkipRefusal(
    "the PE_CPU issues commands before earlier ones are done",
    "nothing, unless the chip may have `issue: blocking`, which is another chip with other times",
)


class NoIsolation:
    """Isolates no command. Notes in *reasons*, with *why*, each command that is worth isolating."""

    def __init__(self, why: SkipRefusal, reasons: SlowPathReasons) -> None:
        self._why = why
        self._reasons = reasons

    def wants(self, command: CommandInFlight) -> bool:
        """Notes the refusal. Returns False."""
        self.missed(command)
        return False

    def missed(self, command: CommandInFlight) -> None:
        """Notes the refusal of a *command* that is worth isolating."""
        if command.shared_plan.n_stages >= isolated_commands.LEAST_ISOLATED_STAGES:
            self._reasons.note(COMMANDS, "", self._why._replace(line=command.submitted.line), 1)

    def isolate(self, work: IsolableWork) -> bool:
        """Returns False, because no command is isolated."""
        return False
