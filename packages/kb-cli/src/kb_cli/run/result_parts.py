"""What a result holds, as plain records. A reader of run folders needs them, and none of the code that made them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from kb_dataexec.analysis import Finding
from kb_dataexec.verify import ProductSample
from kb_engine.program import Leak, WrappedIndex


class Policy(StrEnum):
    """The values of `--keep`."""

    AUTO = "auto"
    ALL = "all"
    NONE = "none"


class Kept(Struct, frozen=True, kw_only=True):
    """Whether a run's data is in its folder, how many bytes the data has, and why it was not kept."""

    policy: Policy
    data: bool
    nbytes: int
    why: str = ""


class Traffic(Struct, frozen=True, kw_only=True):
    """Bytes read from and written to a kind of memory."""

    read: int
    write: int


class CounterSum(Struct, frozen=True, kw_only=True):
    """One counter of the `blocks` blocks of a kind that have it: the sum over them, and the least and the most."""

    kind: str
    counter: str
    blocks: int
    total: int
    least: int
    most: int


class ValueWait(Struct, frozen=True, kw_only=True):
    """Looks at computed values at one kernel line: how many, and the picoseconds that their programs waited.

    Programs that waited at the same time count each.
    """

    line: str
    count: int
    waited_ps: int


class ChosenTile(Struct, frozen=True, kw_only=True):
    """The `tile`, like `64x128x64`, that the chip chose for `commands` GEMMs of one kernel line, which left it open."""

    line: str
    tile: str
    commands: int


class Compared(Struct, frozen=True, kw_only=True):
    """What a run with `--exact check` simulated event by event, too, and how much was known or skipped.

    `commands` are among the `known_commands`, which took a known outcome. `programs` ran beside the `skipped_programs`.
    """

    commands: int
    known_commands: int
    programs: int
    skipped_programs: int


class EventReason(Struct, frozen=True, kw_only=True):
    """`commands` of the `kernel` that were simulated event by event, because of `cause`, a clause.

    `what` names what could have been skipped, such as "programs of a grid", or closed ("commands"). `line` is the
    kernel's line; "" where no line is the cause. `change` is what its author could do, and begins with "nothing" where
    nothing is known that helps.
    """

    what: str
    kernel: str
    line: str
    cause: str
    change: str
    commands: int


class HowSimulated(Struct, frozen=True, kw_only=True):
    """How pass 1 found the times, as `Engine.work` has it.

    Of `commands`, `closed_commands` were worked out at once, `skipped_commands` are those of `skipped_programs`, and
    `event_commands` were simulated event by event, but for `skipped_tiles` of them. `events` is the number of all
    events. `by_event` has the reasons, that with the most commands first.
    """

    launches: int
    commands: int
    closed_commands: int
    skipped_commands: int
    skipped_programs: int
    skipped_tiles: int
    event_commands: int
    events: int
    by_event: list[EventReason]


class OutputCheck(Struct, frozen=True, kw_only=True):
    """The outcome for one output, as `--json` prints it.

    `text` is the outcome in one sentence. For a wrong output, the sentence names the op that wrote the worst element.
    `max_abs_err` is None when the output could not be read. `tolerance` says which tolerance was used, and how to state
    another; folders of an older kb do not say it. With `sample`, the output was checked by sample: `n_elements`,
    `n_wrong` and `max_abs_err` are those of the rows that were compared in full.
    """

    name: str
    ok: bool
    n_elements: int
    n_wrong: int
    max_abs_err: float | None
    text: str
    tolerance: str = ""
    sample: ProductSample | UnsetType = UNSET


class Sanitized(Struct, frozen=True, kw_only=True):
    """The findings of the sanitizers. `leaks` is missing when only a log was searched, because a log shows no leaks.

    `wraps` is missing unless a kernel indexed by integers that wrapped. A log does not show that either.
    """

    findings: list[Finding]
    leaks: list[Leak] | UnsetType = UNSET
    wraps: list[WrappedIndex] | UnsetType = UNSET

    @property
    def texts(self) -> list[str]:
        """A sentence for each finding, leak and wrapped index."""
        return [*map(str, self.findings), *map(str, self.leaks or ()), *map(str, self.wraps or ())]


def was_sampled(outputs: Iterable[OutputCheck]) -> bool:
    """Whether one of *outputs* was checked by sample."""
    return any(not isinstance(check.sample, UnsetType) for check in outputs)
