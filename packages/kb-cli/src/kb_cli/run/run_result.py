"""The result of one run, in the order of its JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from kb_cli.run.fidelity import Fidelity
from kb_cli.run.launch_times import HostTime, LaunchTimes
from kb_cli.run.result_parts import (
    ChosenTile,
    Compared,
    CounterSum,
    HowSimulated,
    Kept,
    OutputCheck,
    Sanitized,
    Traffic,
    ValueWait,
)
from kb_cli.run.roofline import Roofline
from kb_dataexec.analysis import PathShare


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
    simulated: HowSimulated | UnsetType = UNSET
    keep: Kept
    wall_s: dict[str, float] | UnsetType = UNSET
    run_dir: str | UnsetType = UNSET

    def without_place(self) -> dict[str, Any]:
        """The fields that every repetition gives, on any machine, in any folder, whatever else was looked for."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        for name in ("wall_s", "run_dir", "sanitizer", "compared", "simulated"):
            found.pop(name, None)
        return found
