"""The records of a workload's result: its ops, and the time of the whole model that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET, Struct, UnsetType


class OpBound(Struct, frozen=True, kw_only=True):
    """The largest part of the critical path in the kernels of an op: `block` did `what` for `share` (0 to 1) of it."""

    block: str
    what: str
    share: float


class OpLever(Struct, frozen=True, kw_only=True):
    """The change of the chip that gains most for one op: `change` in words, and the `gain`, a share of the op's time.

    The basis is `measured` by pass 1 of the whole workload, or `at best`, a limit that follows from the critical path.
    """

    change: str
    gain: float
    basis: Literal["measured", "at best"]


class OpResult(Struct, frozen=True, kw_only=True):
    """One op of a workload: its name, its part of the workload, its kind, and how often the whole model has the op.

    The op made launches `first_launch` to `end_launch` - 1 of the run. `latency_ps` adds up, over these launches, the
    time from the first kernel's start to the last kernel's end. `gap_ps` adds up, over them, the time from the end of
    the launch before to the kernel's start; for the first launch of the run, from the host's call. It is negative where
    launches overlap. `flops` and `nbytes` are what the algorithm needs: a multiply-add counts as two, and each operand
    and result once. `floor_nbytes` are its weights and caches.

    `compute_share` is the part of the chip's peak that the operations took, and `memory_share` the part of the
    bandwidth of all HBM that the bytes took (0 to 1, over `latency_ps`). They are None where the chip states no limit,
    or the op took no time. `bound` is None without a log. `lever` is missing where nobody measured levers, and where no
    lever gains anything.
    """

    name: str
    part: str
    kind: str
    repeats: int
    first_launch: int
    end_launch: int
    latency_ps: int
    gap_ps: int
    flops: int
    nbytes: int
    floor_nbytes: int
    compute_share: float | None
    memory_share: float | None
    bound: OpBound | None
    lever: OpLever | UnsetType = UNSET

    @property
    def n_launches(self) -> int:
        """The number of its launches in the run."""
        return self.end_launch - self.first_launch


def model_kernels_ps(ops: Sequence[OpResult]) -> int:
    """Returns the picoseconds of all kernels of the model: each of *ops* as often as the model has it."""
    return sum(op.repeats * op.latency_ps for op in ops)


class AlikeOps(NamedTuple):
    """The `n_ops` ops of equal kind, work and time, such as ops of equal blocks. The model has them `repeats` times,
    all together.
    """

    first: OpResult
    n_ops: int
    repeats: int

    @property
    def model_ps(self) -> int:
        """The picoseconds of their kernels in the model."""
        return self.repeats * self.first.latency_ps

    @property
    def text(self) -> str:
        """Their name: that of the first, `block0.down and 2 like it`."""
        return self.first.name if self.n_ops == 1 else f"{self.first.name} and {self.n_ops - 1} like it"


def alike_ops(ops: Sequence[OpResult]) -> list[AlikeOps]:
    """Returns *ops*, ops that are alike together, the ones with most time in the model first."""
    groups: dict[tuple[str, int, int, int], list[OpResult]] = {}
    for op in ops:
        groups.setdefault((op.kind, op.latency_ps, op.flops, op.nbytes), []).append(op)
    found = [AlikeOps(mine[0], len(mine), sum(op.repeats for op in mine)) for mine in groups.values()]
    return sorted(found, key=lambda each: -each.model_ps)


class ModelPart(Struct, frozen=True, kw_only=True):
    """A part of the model, such as a block: the sums over its `ops` in the run, and `model_ps`, its time in the model.

    `kernels_ps` and `gaps_ps` count each op once. `model_ps` counts each as often as the model has it. `repeats` is
    None where its ops have several.
    """

    name: str
    ops: int
    repeats: int | None
    kernels_ps: int
    gaps_ps: int
    model_ps: int


class ModelTimes(Struct, frozen=True, kw_only=True):
    """The time of the whole model, in which each op counts as often as the model has it.

    `kernels_ps` adds up the kernels, and `gaps_ps` the times between them: each op brings the gaps in front of its
    launches as often as it stands in the model, and the answer to the last launch of the run counts once for each
    repeat of the run's first op. So `total_ps` of a model whose ops all stand in it N times is N times the time of the
    run. `phase`, `items` and `unit` come from the workload's step. `items_per_s` is None for a model without time.

    `floor_ps` is the time in which all weights and caches, `floor_nbytes`, pass through all HBM of the chip once. It is
    None where the chip states no bandwidth, or the ops tell no such bytes; `floor_items_per_s` follows from it.
    """

    phase: str
    items: int
    unit: str
    kernels_ps: int
    gaps_ps: int
    total_ps: int
    items_per_s: float | None
    floor_nbytes: int
    floor_ps: int | None
    floor_items_per_s: float | None
    parts: list[ModelPart]
