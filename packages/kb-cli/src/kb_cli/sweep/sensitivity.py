"""The main effects of a sweep's axes: which axis moves the latency, and how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.sweep.points import Point

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MOST_CELLS: Final = 10_000_000
"""The most numbers in the largest matrix of a fit, 80 MB. Source: assumed; 1,000 values by 1,000 have 2 million."""
_ZERO: Final = 1e-12
"""The relative size up to which an eigenvalue is 0, so that the combination of its vector is not determined."""
_LEAST_MOVE: Final = 1e-7


class Effect(Struct, frozen=True, kw_only=True):
    """The effect of one axis. `ratios` has, for each value, the latency over the latency with the first value.

    `swing` is the largest of the ratios over the smallest one. Both are None where the points do not separate this axis
    from another one. A ratio is None for a value that no point has.
    """

    axis: str
    ratios: dict[str, float | None]
    swing: float | None


class Sensitivity(Struct, frozen=True, kw_only=True):
    """The effects, the largest swing first. `explained` is the share of the variance of log(latency) that they
    explain together (R squared, 0 to 1). The rest are interactions of axes. It is None where all latencies are
    equal.
    """

    effects: list[Effect]
    explained: float | None


def sensitivity(axes: Mapping[str, Sequence[str]], points: Sequence[Point], latencies_ps: Sequence[int]) -> Sensitivity:
    """Returns the main effects of *axes* (their values in order) at *points*, which took *latencies_ps*.

    The logarithm of the latency is fitted by a constant and one number for each value of each axis, by least squares.
    On a complete grid, a ratio is the geometric mean of the ratios over all settings of the other axes. No effect is
    returned where the fit takes more than `MOST_CELLS`. Source: analysis of variance without interactions; any textbook
    on the design of experiments.
    """
    used = [at for at, ps in enumerate(latencies_ps) if ps > 0]
    levels = [_level(axis, values, [points[at][axis] for at in used]) for axis, values in axes.items()]
    if not used or not levels or fit_cells(axes) > MOST_CELLS:
        return Sensitivity(effects=[_unknown(axis, values) for axis, values in axes.items()], explained=None)
    logs = np.log([latencies_ps[at] for at in used])
    logs -= logs.mean()
    fit = _fitted(levels, logs)
    effects = []
    for level, found in zip(levels, fit.effects, strict=True):
        if found is None:
            effects.append(_unknown(level.axis, axes[level.axis]))
            continue
        ratios: dict[str, float | None] = dict.fromkeys(axes[level.axis])
        ratios |= dict(zip(level.values, np.exp(found).tolist(), strict=True))
        known = [ratio for ratio in ratios.values() if ratio is not None]
        effects.append(Effect(axis=level.axis, ratios=ratios, swing=max(known) / min(known)))
    effects.sort(key=lambda effect: -(effect.swing or 0.0))
    return Sensitivity(effects=effects, explained=_explained(fit.logs, logs))


def fit_cells(axes: Mapping[str, Sequence[str]]) -> int:
    """Returns the number of cells of the largest matrix of a fit of *axes*."""
    counts = sorted(len(values) for values in axes.values())
    return sum(counts[:-1]) * sum(counts)


class _Level(NamedTuple):
    """The `values` of an axis that points have, in order, and the number of each point's value among them."""

    axis: str
    values: list[str]
    codes: Ints


class _Fit(NamedTuple):
    """The logarithm of each ratio of each axis, None where the points do not determine it, and the fitted `logs`."""

    effects: list[Floats | None]
    logs: Floats


def _level(axis: str, values: Sequence[str], texts: Sequence[str]) -> _Level:
    there = set(texts)
    present = [value for value in values if value in there]
    number = {value: at for at, value in enumerate(present)}
    return _Level(axis, present, np.array([number[text] for text in texts], np.int64))


def _fitted(levels: Sequence[_Level], logs: Floats) -> _Fit:
    """Returns the least squares fit of *logs*, whose mean is 0, by the axes *levels*.

    The axis with most values is solved for in terms of the others, because the matrix of its counts is diagonal: each
    of its numbers is a mean, of the logs less the effects of the other axes. So no matrix has a row for each point.
    Source: the Schur complement; the Frisch-Waugh-Lovell theorem of regression.
    """
    largest = max(levels, key=lambda level: len(level.values))
    others = [level for level in levels if level is not largest]
    counts = np.bincount(largest.codes).astype(np.float64)
    shares = np.hstack([np.empty((len(counts), 0)), *(_crossed(largest, level)[:, 1:] for level in others)])
    shares /= counts[:, None]
    rows = [np.hstack([_crossed(one, other)[1:, 1:] for other in others]) for one in others]
    inner = np.vstack(rows) if rows else np.empty((0, 0))
    means = np.bincount(largest.codes, logs) / counts
    sums = np.concatenate([np.empty(0), *(np.bincount(level.codes, logs)[1:] for level in others)])
    scale = float(inner.diagonal().max(initial=0.0))
    sizes, vectors = np.linalg.eigh(inner - shares.T @ (shares * counts[:, None]))
    empty = vectors[:, sizes <= scale * len(sizes) * _ZERO]
    full, sizes = vectors[:, empty.shape[1] :], sizes[empty.shape[1] :]
    numbers = full @ ((full.T @ (sums - shares.T @ (means * counts))) / sizes)
    base = means - shares @ numbers
    moved = shares @ empty
    effects: dict[str, Floats | None] = {}
    effects[largest.axis] = base - base[0] if (np.abs(moved - moved[:1]) < _LEAST_MOVE).all() else None
    fitted, at = base[largest.codes], 0
    for level in others:
        mine = slice(at, at + len(level.values) - 1)
        at = mine.stop
        found = np.concatenate([[0.0], numbers[mine]])
        fitted = fitted + found[level.codes]
        effects[level.axis] = found if (np.abs(empty[mine]) < _LEAST_MOVE).all() else None
    return _Fit([effects[level.axis] for level in levels], fitted)


def _crossed(one: _Level, other: _Level) -> Floats:
    """Returns how many points have each value of *one* with each value of *other*."""
    shape = (len(one.values), len(other.values))
    counted = np.bincount(one.codes * shape[1] + other.codes, minlength=shape[0] * shape[1])
    return counted.reshape(shape).astype(np.float64)


def _unknown(axis: str, values: Sequence[str]) -> Effect:
    return Effect(axis=axis, ratios=dict.fromkeys(values), swing=None)


def _explained(fitted: Floats, logs: Floats) -> float | None:
    spread = float(((logs - logs.mean()) ** 2).sum())
    return 1.0 - float(((logs - fitted) ** 2).sum()) / spread if spread > 1e-18 else None
