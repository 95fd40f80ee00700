"""Which axis moves the latency, and how much: the main effects of a sweep's axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.sweep.points import Point


class Effect(Struct, frozen=True, kw_only=True):
    """What one axis does. `ratios` has, for each value, the latency over that with the first value.

    `swing` is the largest of the ratios over the smallest one. Both are None where the points do not tell this axis
    from another one. A ratio is None for a value that no point has.
    """

    axis: str
    ratios: dict[str, float | None]
    swing: float | None


class Sensitivity(Struct, frozen=True, kw_only=True):
    """The effects, the largest swing first. `explained` is the share of the variance of log(latency) that they explain
    together (R squared, 0 to 1); the rest is what axes do only together. It is None where all latencies are equal.
    """

    effects: list[Effect]
    explained: float | None


def sensitivity(axes: Mapping[str, Sequence[str]], points: Sequence[Point], latencies_ps: Sequence[int]) -> Sensitivity:
    """The main effects of *axes* (their values in order) at *points*, which took *latencies_ps*.

    The logarithm of the latency is fitted by a constant and one number for each value of each axis, by least squares.
    On a complete grid, a ratio is the geometric mean of the ratios over all settings of the other axes.
    Source: analysis of variance without interactions; any textbook on the design of experiments.
    """
    used = [at for at, ps in enumerate(latencies_ps) if ps > 0]
    logs = np.log([latencies_ps[at] for at in used])
    seen = {axis: {points[at][axis] for at in used} for axis in axes}
    columns = [(axis, value) for axis, values in axes.items() for value in _others(values, seen[axis])]
    design = np.ones((len(used), 1 + len(columns)))
    for number, (axis, value) in enumerate(columns):
        design[:, 1 + number] = [points[at][axis] == value for at in used]
    if not used:
        return Sensitivity(effects=[_unknown(axis, values) for axis, values in axes.items()], explained=None)
    fitted, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    told = np.ones(design.shape[1], bool) if rank == design.shape[1] else _told(design)
    effects = []
    for axis, values in axes.items():
        at = [1 + number for number, (name, _) in enumerate(columns) if name == axis]
        if not told[at].all():
            effects.append(_unknown(axis, values))
            continue
        ratios: dict[str, float | None] = dict.fromkeys(values)
        present = [value for value in values if value in seen[axis]]
        ratios |= dict(zip(present, [1.0, *np.exp(fitted[at]).tolist()], strict=True))
        known = [ratio for ratio in ratios.values() if ratio is not None]
        effects.append(Effect(axis=axis, ratios=ratios, swing=max(known) / min(known)))
    effects.sort(key=lambda effect: -(effect.swing or 0.0))
    return Sensitivity(effects=effects, explained=_explained(design @ fitted, logs))


def _others(values: Sequence[str], seen: set[str]) -> list[str]:
    """The values that points have, without the first of them, which the others are compared with."""
    return [value for value in values if value in seen][1:]


def _unknown(axis: str, values: Sequence[str]) -> Effect:
    return Effect(axis=axis, ratios=dict.fromkeys(values), swing=None)


def _told(design: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Whether the number of each column of *design* is decided: no vector that *design* maps to 0 has a part there."""
    sizes, vectors = np.linalg.eigh(design.T @ design)
    empty = vectors[:, sizes < sizes.max() * len(sizes) * 1e-12]
    told: npt.NDArray[np.bool_] = (np.abs(empty) < 1e-7).all(axis=1)
    return told


def _explained(fitted: npt.NDArray[np.float64], logs: npt.NDArray[np.float64]) -> float | None:
    spread = float(((logs - logs.mean()) ** 2).sum())
    return 1.0 - float(((logs - fitted) ** 2).sum()) / spread if spread > 1e-18 else None
