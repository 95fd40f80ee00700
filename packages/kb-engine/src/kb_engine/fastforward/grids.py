"""Grids: the strategy for launches of a grid, whose programs are replayed from templates and skipped in periods.

Design: docs/design/replay-and-purity.md
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.engine.strategies import LaunchRequest, MadeLaunch
from kb_engine.fastforward.refusals import OTHERS_UNDER_WAY
from kb_engine.fastforward.replay.purity import MadeKernel
from kb_engine.fastforward.replay.templates import NEAR, Templates, templates_of
from kb_engine.fastforward.steady_state.program_skipper import ProgramSkipper
from kb_engine.language.tl import Language
from kb_engine.launch.grid_launch import GridLaunch
from kb_engine.observe.chip import Chip
from kb_engine.observe.slow_path import SkipRefusal
from kb_engine.program.runner import KernelCall
from kb_engine.program.session import Session

_VALUES: Final = SkipRefusal(
    "the front end does not report decisions by values", "take `Language` as front end, or kernels of `kb_triton`"
)


class Grids:
    """Runs launches of grids on *chip*. Without *templates*, or with a *refusal*, no program is skipped.

    *on_issue* is called with each command of a skipped program, where there is an op log. `skipped_programs` and
    `skipped_commands` count over all launches. `skipper` is the ProgramSkipper of the last launch, if there was one.
    """

    def __init__(
        self,
        chip: Chip,
        templates: bool,
        refusal: SkipRefusal | None,
        on_issue: Callable[[CommandInFlight], None] | None,
    ) -> None:
        self._chip = chip
        self._templates = templates
        self._refusal = refusal
        self._on_issue = on_issue
        self.skipper: ProgramSkipper | None = None
        self.skipped_programs = self.skipped_commands = 0

    @property
    def is_searching(self) -> bool:
        """Whether a period of the programs under way is searched, and none was found so far."""
        return self.skipper is not None and self.skipper.is_searching

    def make(self, request: LaunchRequest) -> MadeLaunch | SkipRefusal | None:
        """Makes the launch where its programs can be replayed."""
        number, session, pes, call, grid, called_ps = request
        if grid is None:
            return None
        refusal = self._refusal if _reports_values(call) else _VALUES
        has_templates = self._templates and _reports_values(call)
        templates = templates_of(call, grid.n_programs, len(pes)) if has_templates else None
        if not isinstance(templates, Templates):
            return refusal or templates
        launch = GridLaunch(
            number, session, pes, call, grid, templates.play, lambda each: templates.of(each) is not None, called_ps
        )
        if templates.is_near:
            refusal = refusal or NEAR
        if refusal is None and not session.under_way.is_one:
            refusal = OTHERS_UNDER_WAY
        self.skipper = None
        if refusal is not None:
            return MadeLaunch(launch, lambda: refusal)
        self.skipper = ProgramSkipper(launch, templates, session, self._chip, pes, self._on_issue)
        return MadeLaunch(launch, partial(self._ended, self.skipper, session))

    def _ended(self, skipper: ProgramSkipper, session: Session) -> SkipRefusal | None:
        """Counts the programs that *skipper* skipped. Returns why there are none, if there are none."""
        session.keep_commands(False)  # no snapshot of the launch follows
        self.skipped_programs += skipper.skipped
        self.skipped_commands += skipper.skipped_commands
        return skipper.why_not


def _reports_values(call: KernelCall) -> bool:
    """Whether the front end calls `ProgramPort.leave` when it decides by values, as `tl` and MadeKernels do."""
    return call.front_end is Language or isinstance(call.kernel, MadeKernel)
