"""The records of a run's result. Readers of run folders import these records without the simulator.

Field names are those of the JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from kb_cli.run.base.fidelity_band import Fidelity
from kb_cli.run.base.frame import Frame
from kb_cli.run.base.remedy import Remedy
from kb_cli.run.base.workload_result import ModelTimes, OpResult
from kb_cli.terminal.units import PS_PER_NS
from kb_dataexec.analysis import Finding, PathShare, ProgramName, RaceReport
from kb_dataexec.verify import ProductSample
from kb_engine.program import Leak, WrappedIndex


class Policy(StrEnum):
    """The values of `--keep`: whether the data and the op log of a run go into its folder."""

    AUTO = "auto"
    ALL = "all"
    NONE = "none"


class Kept(Struct, frozen=True, kw_only=True):
    """What a run left in its folder: its data in `nbytes` bytes, and its op log in `log_nbytes` bytes.

    The data are the initial memory, the references and the captured values. `why` is the reason for which the data is
    not there, and `why_no_log` that of the log. A folder of an older kb has no `log`: there the log lies beside the
    data or is gone with it, and `nbytes` counts both.
    """

    policy: Policy
    data: bool
    nbytes: int
    why: str = ""
    log: bool | UnsetType = UNSET
    log_nbytes: int = 0
    why_no_log: str = ""

    @property
    def has_log(self) -> bool:
        """Whether the folder has the op log."""
        return self.data if isinstance(self.log, UnsetType) else self.log

    @property
    def log_reason(self) -> str:
        """The reason for which the folder has no op log; "" where it has one."""
        return self.why if isinstance(self.log, UnsetType) else self.why_no_log

    @property
    def missing(self) -> str:
        """What the folder lacks, with the reasons, as the part of a sentence; "" where it has all."""
        if not self.data and not self.has_log:
            same = self.log_reason in ("", self.why)
            return f"no data and no log kept: {self.why}" + ("" if same else f"; {self.log_reason}")
        if not self.has_log:
            return f"no log kept: {self.log_reason}"
        return "" if self.data else f"no data kept: {self.why}"


class Traffic(Struct, frozen=True, kw_only=True):
    """Bytes read from and written to the memories of one space."""

    read: int
    write: int


class CounterSum(Struct, frozen=True, kw_only=True):
    """The sum of one counter over the `blocks` blocks of one kind that have it, and the least and largest value of a
    block.
    """

    kind: str
    counter: str
    blocks: int
    total: int
    least: int
    most: int


class ValueWait(Struct, frozen=True, kw_only=True):
    """The waits for computed values at one kernel line: their number, and the picoseconds that programs waited.

    Programs that wait at the same time count each.
    """

    line: str
    count: int
    waited_ps: int


class ChosenTile(Struct, frozen=True, kw_only=True):
    """The `tile`, such as `64x128x64`, that the chip chose for `commands` GEMMs of one kernel line that leave it
    open.
    """

    line: str
    tile: str
    commands: int


class Compared(Struct, frozen=True, kw_only=True):
    """The work that a run with `--exact check` simulated once more on an engine that simulates every event.

    `launches` counts the launches whose times, counts, bytes and rows of the log were compared and are equal.
    """

    launches: int


class SlowPathReason(Struct, frozen=True, kw_only=True):
    """One reason for which commands took the slow path: `commands` of `kernel` were simulated event by event.

    `what` names work that has a fast path: `commands` can be isolated, and `programs of a grid` and tiles can be
    skipped in a steady state. `programs that wait for each other` have none. `cause` is a clause. `line` is the kernel
    line, "" where no line is the cause. `change` says how the author can avoid the slow path, and begins with "nothing"
    where no way is known.
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
    """Times of one launch on `pes` PEs, in nanoseconds since the chip was built.

    `call_ns` is the host's call, `start_ns` the start of the first kernel, `end_ns` the end of the last kernel, and
    `response_ns` the answer to the host. All PEs get one target time for their start. `late_pes` PEs started after it,
    the last of them by `late_ns`. `grid` has the sizes of the grid along its axes, and is missing without a grid.
    `stream` is the number of the launch's stream, and is missing without one.
    """

    start_ns: float
    end_ns: float
    pes: int
    call_ns: float
    response_ns: float
    late_pes: int
    late_ns: float
    grid: tuple[int, ...] | UnsetType = UNSET
    stream: int | UnsetType = UNSET


class HostTime(Struct, frozen=True, kw_only=True):
    """Nanoseconds of the host's calls: writes and reads of tensors, updates of MMUs, and launches before and after
    kernels.
    """

    write_ns: float
    read_ns: float
    map_ns: float
    launch_ns: float
    response_ns: float


COMPUTE = "compute"
ARRAYS = "pe_gemm"
"""The kind of roof that `compute` stands for."""


class Roof(Struct, frozen=True, kw_only=True):
    """The least time that the work of the parts of one kind takes, each at its full rate. No run takes less time.

    `kind` is a memory space (`reg` for the ports of TCMs), a memory space and a part of its memories (`hbm cache`), a
    kind of block, `link`, or `port`, the port of a block. DMAs have the set-ups of their reads and writes, and bytes
    count for memories and links. The chip has `count` such parts.

    `least_ps` is the time of the part with the most work, which is `node`, in picoseconds, rounded down. `even_ps` is
    the time if each part had an equal share of the work by its rate; None where work cannot move from part to part.
    `gbs` is the rate of all parts of a memory together.

    `least_ps` is None for a block that knows no full rate. `kind` is its implementation then. `is_beaten` says that the
    block states a rate, and did its work faster.
    """

    kind: str
    count: int
    node: str
    least_ps: int | None
    even_ps: int | None = None
    gbs: float | None = None
    is_beaten: bool = False


class Unwritten(Struct, frozen=True, kw_only=True):
    """Bytes that caches hold at the end of a run and that the memories behind lack, and the picoseconds that writing
    them would take.

    Each memory writes its own bytes, so the time is that of the memory with the most work.
    """

    nbytes: int
    ps: int


class Roofline(Struct, frozen=True, kw_only=True):
    """The roofline of a run: the least time that the limits of its chip allow, and the limit that sets it.

    `bound` is `compute`, or the kind of a roof. No run of these operations and bytes takes less than `least_ns` on the
    chip, wherever they lie. `placed_ns` is the least time with the bytes and operations where they lie, set by
    `placed_bound`; missing in older folders.

    `memory` is the kind of memory whose bytes take longest, `memory_gbs` its bandwidth, and `memory_share` the part of
    the bandwidth that the run used. `compute_share` is the part of the peak that the GEMM arrays used. Shares are 0 to
    1, over the time of the kernels. None stands for a limit that the chip does not state.
    """

    bound: str
    least_ns: float
    memory: str | None
    memory_gbs: float | None
    memory_share: float | None
    compute_share: float | None
    placed_ns: float | UnsetType = UNSET
    placed_bound: str | UnsetType = UNSET


class WrongElements(Struct, frozen=True, kw_only=True):
    """The wrong elements of an output, and the record that wrote the worst of them.

    `share` is their part of the elements that were compared. `region` is the smallest box that holds them: for each
    axis, the first index and the index behind the last. `got`, `expected` and `allowed` belong to the element at
    `worst`; they are None where a number is not finite. `op_id`, `component`, `line` and `program` are those of the
    record that wrote it last, and missing where no record did, or where the log does not say it.
    """

    share: float
    region: list[tuple[int, int]]
    worst: tuple[int, ...]
    got: float | None
    expected: float | None
    allowed: float | None
    op_id: int | UnsetType = UNSET
    component: str | UnsetType = UNSET
    line: str | UnsetType = UNSET
    program: ProgramName | UnsetType = UNSET


class OutputCheck(Struct, frozen=True, kw_only=True):
    """The verdict on one output.

    `text` is the verdict in one sentence, which names the op that wrote the worst element of a wrong output.
    `max_abs_err` is None when the output could not be read. `tolerance` names the tolerance and how to state another
    one; it is empty in folders of an older kb. With `sample`, the output was checked by sample, and `n_elements`,
    `n_wrong` and `max_abs_err` count the rows that were compared in full. `argument` is the parameter of the
    kernel for the output, and missing where that is not known. `wrong` is missing unless elements are wrong.
    """

    name: str
    ok: bool
    n_elements: int
    n_wrong: int
    max_abs_err: float | None
    text: str
    tolerance: str = ""
    sample: ProductSample | UnsetType = UNSET
    argument: str | UnsetType = UNSET
    wrong: WrongElements | UnsetType = UNSET


class Sanitized(Struct, frozen=True, kw_only=True):
    """The findings of the sanitizers.

    `leaks` is missing when only a log was searched, because a log shows no leaks. `wraps` is missing unless a kernel
    indexed by integers that wrapped; a log does not show this either. `notes` has sentences on what was not decided,
    and is missing without any.
    """

    findings: list[Finding]
    leaks: list[Leak] | UnsetType = UNSET
    wraps: list[WrappedIndex] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET

    @property
    def texts(self) -> list[str]:
        """One sentence for each finding, leak and wrapped index."""
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
    """The result of one run. A step that was left out gives None: `verified` without verification, `log_digest` without
    a log.

    `latency_ns` and `latency_ps` add up, over all launches, the time from the first kernel's start to the last
    kernel's end. `startup_ns` adds up the start-up of the PEs before the first kernels, which is no part of the
    latency; it is missing where PEs start at once. `whole_ns` is the time from the call of the first launch to the
    answer of the last. `host` is the host's time on top of the latency, and None on a topology without a host.
    `fidelity` says how far the time may be from that of a device. `flops` are the operations that the benchmark
    states, and `gemm_flops` those of the products that were executed, two for each multiply-add. `roofline` is None
    on a chip that states no limits. `roofs` has its limits one by one, the highest first, and then the blocks
    without one. `unwritten` is missing unless caches hold bytes to be written at the end. Older folders have none
    of `whole_ns`, `fidelity`, `roofline` and `roofs`. `shape` is the row of a shapes file, and missing for other
    runs. `where` is the critical path by block, the largest share first, and missing without a log. `remedies` are
    changes of the kernel, the most gain first, and missing without a log.

    `sanitizer` and `compared` are missing unless they were asked for. `races` is missing where a sanitizer looked, and
    where nothing was to be looked for. `simulated` is missing from run folders.
    `waits_ps` adds up over all tile stages. `counters` has the counters of blocks during launches. `value_waits` is
    missing unless kernels waited for computed values, and `chosen_tiles` unless GEMMs left their tile to the chip.
    `chose` has what the benchmark chose on this chip (`Host.chose`), and is missing where it chose nothing.
    `frame` says what the latency counts, and is missing from older folders. `workload_ops` has the ops of a workload in
    their order, and `model` the time of the whole model; both are missing for any other benchmark, and `model` for a
    workload that tells no step.
    """

    benchmark: str
    topology: str
    shape: dict[str, object] | UnsetType = UNSET
    params: dict[str, object]
    seed: int
    latency_ns: float
    latency_ps: int
    whole_ns: float | UnsetType = UNSET
    startup_ns: float | UnsetType = UNSET
    frame: Frame | UnsetType = UNSET
    fidelity: Fidelity | UnsetType = UNSET
    verified: bool | None
    max_abs_err: float | None
    flops: int
    gemm_flops: int = 0
    achieved_flops: float
    peak_flops: float | None
    roofline: Roofline | UnsetType | None = UNSET
    roofs: list[Roof] | UnsetType = UNSET
    unwritten: Unwritten | UnsetType = UNSET
    utilization: dict[str, float]
    busiest: dict[str, Busiest]
    bytes: dict[str, Traffic]
    bandwidth_gbs: dict[str, float]
    counters: list[CounterSum] = []
    value_waits: list[ValueWait] | UnsetType = UNSET
    chosen_tiles: list[ChosenTile] | UnsetType = UNSET
    chose: dict[str, str | int] | UnsetType = UNSET
    where: list[PathShare] | UnsetType = UNSET
    bounded_by: str
    remedies: list[Remedy] | UnsetType = UNSET
    tile_stages: int
    ops: int
    log_digest: str | None
    waits_ps: dict[str, int] | None
    stages_ps: dict[str, dict[str, int]] | None
    launches: list[LaunchTimes]
    workload_ops: list[OpResult] | UnsetType = UNSET
    model: ModelTimes | UnsetType = UNSET
    host: HostTime | None
    outputs: list[OutputCheck]
    refusal: str | None
    sanitizer: Sanitized | UnsetType = UNSET
    races: RaceReport | UnsetType = UNSET
    compared: Compared | UnsetType = UNSET
    simulated: SimStats | UnsetType = UNSET
    keep: Kept
    wall_s: dict[str, float] | UnsetType = UNSET
    run_dir: str | UnsetType = UNSET

    @property
    def whole_ps(self) -> int:
        """The picoseconds from the call of the first launch to the last answer; of an older folder, the latency."""
        return self.latency_ps if isinstance(self.whole_ns, UnsetType) else round(self.whole_ns * PS_PER_NS)

    def without_place(self) -> dict[str, Any]:
        """Returns the fields that do not depend on the machine, the folder, or optional checks, as plain values.

        Every repetition of a run gives equal fields.
        """
        found: dict[str, Any] = msgspec.to_builtins(self)
        for name in ("wall_s", "run_dir", "sanitizer", "races", "compared", "simulated"):
            found.pop(name, None)
        return found


def remedies_of(result: RunResult) -> list[Remedy]:
    """Returns the remedies of *result*; none for a run without a log, or of an older kb."""
    return [] if isinstance(result.remedies, UnsetType) else result.remedies
