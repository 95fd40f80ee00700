"""What a result holds, as plain records. A reader of run folders needs them, and none of the code that made them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from kb_cli.terminal.units import PS_PER_NS, duration
from kb_dataexec.analysis import Finding, PathShare
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
    """The work that a run with `--exact check` simulated event by event as well, to compare both ways.

    `commands` counts the commands that were compared, among the `known_commands` that took a known isolated result.
    `programs` counts the programs that were compared, beside the `skipped_programs`.
    """

    commands: int
    known_commands: int
    programs: int
    skipped_programs: int


class SlowPathReason(Struct, frozen=True, kw_only=True):
    """One reason for which commands took the slow path: `commands` of `kernel` were simulated event by event.

    `what` names the work that could have been avoided: `commands` could have been isolated, and `programs of a grid` or
    tiles could have been skipped in a steady state. `cause` is a clause. `line` is the kernel line, "" where no line is
    the cause. `change` says how the author can avoid the slow path, and begins with "nothing" where no way is known.
    """

    what: str
    kernel: str
    line: str
    cause: str
    change: str
    commands: int


class SimStats(Struct, frozen=True, kw_only=True):
    """Statistics of pass 1: how many commands of all `launches` were simulated in which way. See `Engine.work`.

    Of `commands`, `isolated_commands` were computed at once, `skipped_commands` belong to `skipped_programs`, and
    `event_commands` took the slow path, event by event, except for `skipped_tiles` of them. `events` counts all events.
    `slow_path` has the reasons, the one with the most commands first.
    """

    launches: int
    commands: int
    isolated_commands: int
    skipped_commands: int
    skipped_programs: int
    skipped_tiles: int
    event_commands: int
    events: int
    slow_path: list[SlowPathReason]


class LaunchTimes(Struct, frozen=True, kw_only=True):
    """One launch on `pes` PEs: start of the first kernel, end of the last, the host's call and the response.

    All PEs are told one target time to start at. `late_pes` PEs started later, the last of them by `late_ns`.
    """

    start_ns: float
    end_ns: float
    pes: int
    call_ns: float
    response_ns: float
    late_pes: int
    late_ns: float


class HostTime(Struct, frozen=True, kw_only=True):
    """Time of the host's calls: writes and reads of tensors, updates of MMUs, and launches before and after kernels."""

    write_ns: float
    read_ns: float
    map_ns: float
    launch_ns: float
    response_ns: float


COMPUTE = "compute"


class Roofline(Struct, frozen=True, kw_only=True):
    """What `bound` allows: `compute`, or a memory space. No chip like this one takes less than `least_ns`.

    `memory` is the space that the bytes of the run hold longest, at `memory_gbs` of its bandwidth; its share of that
    bandwidth is `memory_share`. `compute_share` is that of the peak. All shares are 0 to 1, over the time of the
    kernels. None stands for a chip that states no bandwidth, or no peak.
    """

    bound: str
    least_ns: float
    memory: str | None
    memory_gbs: float | None
    memory_share: float | None
    compute_share: float | None


Test = Literal["gemm", "dram", "noc"]


class Fidelity(Struct, frozen=True, kw_only=True):
    """The kind of test that fits a run, and what a comparison of that kind on the chip says of the latency.

    `low_ns` and `high_ns` are the latency divided and multiplied by e to the power of `p90`: nine of ten of the `rows`
    measured on `device` lay in such a band. Without a comparison of that kind, `validated` is false, and they are None.
    So it is where a chip was changed after its comparison; then `device` and `source` say with what it was compared.
    """

    test: Test
    validated: bool
    low_ns: float | None = None
    high_ns: float | None = None
    device: str | None = None
    rows: int | None = None
    p90: float | None = None
    source: str | None = None

    def __str__(self) -> str:
        if self.low_ns is None or self.high_ns is None or self.p90 is None:
            if self.device is not None:
                return f"not validated: the chip was changed since its {self.test} test against {self.device}"
            return f"not validated: no {self.test} test on this chip"
        low, high = (duration(ns * PS_PER_NS) for ns in (self.low_ns, self.high_ns))
        return f"{low} to {high}, as 9 of 10 of {self.rows} {self.test} rows of {self.device}"


def fidelity_text(fidelity: Fidelity | UnsetType) -> str:
    """The fidelity behind a latency, in brackets; nothing for the run of an older version."""
    return "" if isinstance(fidelity, UnsetType) else f" ({fidelity})"


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


class Busiest(Struct, frozen=True, kw_only=True):
    """The busiest of `count` blocks of a kind, and its time in service over the time of all launches (0 to 1)."""

    node: str
    utilization: float
    count: int


class RunResult(Struct, frozen=True, kw_only=True):
    """One run. A step that was left out gives None: `verified` without verification, `log_digest` without a log.

    `latency` adds up, over all launches, the time from the first kernel's start to the last kernel's end. `whole_ns` is
    from the call of the first launch to the answer of the last. `host` is the host's time on top of the latency, and
    None on a topology without a host. `fidelity` says how far the latency may be from a device. `roofline` is None on
    a chip that states no limits. Older folders have none of `whole_ns`, `fidelity` and `roofline`. `shape` is the row
    of a shapes file, and missing for other runs. `where` is the critical path by block, the largest share first, and
    missing without a log.
    `sanitizer` and `compared` are missing unless they were asked for. `simulated` is missing from run folders.
    `waits_ps` adds up over all tile stages. `counters` has what blocks counted during launches. `value_waits` is
    missing unless kernels looked at computed values, and `chosen_tiles` unless GEMMs left their tile to the chip.
    """

    benchmark: str
    topology: str
    shape: dict[str, object] | UnsetType = UNSET
    params: dict[str, object]
    seed: int
    latency_ns: float
    latency_ps: int
    whole_ns: float | UnsetType = UNSET
    fidelity: Fidelity | UnsetType = UNSET
    verified: bool | None
    max_abs_err: float | None
    flops: int
    achieved_flops: float
    peak_flops: float | None
    roofline: Roofline | UnsetType | None = UNSET
    utilization: dict[str, float]
    busiest: dict[str, Busiest]
    bytes: dict[str, Traffic]
    bandwidth_gbs: dict[str, float]
    counters: list[CounterSum] = []
    value_waits: list[ValueWait] | UnsetType = UNSET
    chosen_tiles: list[ChosenTile] | UnsetType = UNSET
    where: list[PathShare] | UnsetType = UNSET
    bounded_by: str
    tile_stages: int
    ops: int
    log_digest: str | None
    waits_ps: dict[str, int] | None
    stages_ps: dict[str, dict[str, int]] | None
    launches: list[LaunchTimes]
    host: HostTime | None
    outputs: list[OutputCheck]
    refusal: str | None
    sanitizer: Sanitized | UnsetType = UNSET
    compared: Compared | UnsetType = UNSET
    simulated: SimStats | UnsetType = UNSET
    keep: Kept
    wall_s: dict[str, float] | UnsetType = UNSET
    run_dir: str | UnsetType = UNSET

    def without_place(self) -> dict[str, Any]:
        """The fields that every repetition gives, on any machine, in any folder, whatever else was looked for."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        for name in ("wall_s", "run_dir", "sanitizer", "compared", "simulated"):
            found.pop(name, None)
        return found
