"""Wing: the means of speed of one chip, hooked into its schedulers, and the strategies that an engine asks.

Design: docs/design/fast-forward.md
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Final

from kb_engine.engine.build import Built
from kb_engine.engine.strategies import Skipped, Strategy
from kb_engine.fastforward.grids import Grids
from kb_engine.fastforward.isolated.isolated_commands import IsolatedCommands
from kb_engine.fastforward.isolated.pe_forms import all_sources_belong_to_pes
from kb_engine.fastforward.isolated.pe_isolation import ISSUES_AHEAD, NoIsolation, PeIsolation
from kb_engine.fastforward.refusals import (
    OF_STAGES,
    WITHOUT_TEMPLATES,
    methods_of_programs,
    why_nothing_isolates,
    why_nothing_skips,
)
from kb_engine.fastforward.steady_state.tile_skipper import CommandSkipper
from kb_engine.observe.observer import Observer, listener, listener_of_each
from kb_engine.observe.slow_path import SkipRefusal, SlowPathReasons
from kb_engine.program.materialize import Materializer

_OF_EVENTS: Final = (*OF_STAGES, "on_trace")


class Wing:
    """Hooks the means of speed into the chip *built*, as far as *observers* need not see the skipped events.

    Without *templates*, each program of a grid runs its kernel. *reasons* collects why work is simulated event by
    event. `isolated` isolates commands, `tiles` skips tiles, and `grids` replays and skips programs; the first two are
    None where the chip or an observer forbids it.
    """

    def __init__(self, built: Built, observers: Sequence[Observer], templates: bool, reasons: SlowPathReasons) -> None:
        chip, recorder = built.chip, built.session.recorder
        methods = [name for name in _OF_EVENTS if listener(observers, name) is not None]
        is_foreseen = chip.fabric.is_foreseen
        self.tiles: CommandSkipper | None = None
        if is_foreseen and not methods:
            self.tiles = CommandSkipper(chip, recorder, reasons, built.session.under_way)
        self.isolated: IsolatedCommands | None = None
        if is_foreseen and not methods and all_sources_belong_to_pes(list(chip.components.values())):
            paused = nullcontext if self.tiles is None else self.tiles.paused
            self.isolated = IsolatedCommands(chip, recorder, paused, reasons)
        self._hook(built, None if self.isolated is not None else why_nothing_isolates(is_foreseen, methods), reasons)
        listening = methods_of_programs(observers)
        has_log = recorder is not None
        refusal: SkipRefusal | None = None
        if not templates:
            refusal = WITHOUT_TEMPLATES
        elif self.tiles is None or not (not listening or (listening == ["on_issue"] and has_log)):
            refusal = why_nothing_skips(
                is_foreseen, methods + [name for name in listening if name != "on_issue" or not has_log]
            )
        on_issue = listener_of_each(observers, "on_issue", "on_issue_again")
        self.grids = Grids(chip, templates, refusal, on_issue)
        self.strategies: Sequence[Strategy] = (self.grids,)

    @property
    def is_searching(self) -> bool:
        """Whether programs of the launch under way may yet be skipped."""
        return self.grids.is_searching

    @property
    def n_isolated(self) -> int:
        """The number of commands that were isolated so far."""
        return 0 if self.isolated is None else self.isolated.n_isolated

    def launch_begins(self, n_pes: int) -> None:
        """Forgets the places where commands of earlier launches met."""
        if self.isolated is not None:
            self.isolated.begin_launch(n_pes)

    def launch_failed(self) -> None:
        """Undoes the isolated commands that have not ended."""
        if self.isolated is not None:
            self.isolated.undo_all()

    def skipped(self) -> Skipped:
        """Returns the counts so far, and the reasons of commands whose tiles were not skipped."""
        tiles = self.tiles
        return Skipped(
            self.n_isolated,
            self.grids.skipped_commands,
            self.grids.skipped_programs,
            0 if tiles is None else tiles.skipped,
            () if tiles is None else tiles.slow_path,
        )

    def _hook(self, built: Built, why_none: SkipRefusal | None, reasons: SlowPathReasons) -> None:
        """Has schedulers ask before they feed a command. *why_none* is the reason where no command is isolated."""
        chip, isolated = built.chip, self.isolated
        for pe_id, pe in built.pes.items():
            blocks = [chip.components[node.id] for node in chip.topology.graph.pe_nodes(pe_id)]
            if self.tiles is not None:
                pe.scheduler.on_feed = partial(self.tiles.watch, blocks)
            if isolated is None or pe.cpu.issues_ahead:
                pe.scheduler.isolation = NoIsolation(why_none or ISSUES_AHEAD, reasons)
            else:
                pe.scheduler.isolation = PeIsolation(isolated, chip.fabric, blocks, pe.event_order)
        materialize = built.session.materialize
        if isolated is not None and isinstance(materialize, Materializer):
            materialize.before.append(isolated.undo_all)
