"""The main effects of a sweep's axes: which axis moves the latency, and how much, from pairs of points that match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.sweep.points import Point

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Effect(Struct, frozen=True, kw_only=True):
    """The effect of one axis, from matched pairs: points that differ in this axis alone and both succeeded.

    `ratios` has, for each value, the latency over the latency with the first value that has a pair: the geometric mean
    over all pairs of the two values. A ratio is None for a value without such a pair. `pairs` has the number of pairs
    of each ratio, and 0 for the first value. `failed` counts the points that failed, by value.

    `swing` is the largest ratio between two of three values: the slowest, the fastest and the first one. It is 1 or
    more, and None where the axis has no pair.
    """

    axis: str
    ratios: dict[str, float | None]
    swing: float | None
    pairs: dict[str, int] = {}
    failed: dict[str, int] = {}


class Sensitivity(Struct, frozen=True, kw_only=True):
    """The effects, the largest swing first. `explained` is the share of the variance of log(latency) that they
    explain together (R squared, at most 1), over the points whose values have ratios. The rest are interactions of
    axes. It is None where no axis has a pair, and where all latencies are equal.
    """

    effects: list[Effect]
    explained: float | None


def sensitivity(
    axes: Mapping[str, Sequence[str]], points: Sequence[Point], latencies_ps: Sequence[int | None]
) -> Sensitivity:
    """Returns the main effects of *axes* (their values in order) at *points*, which took *latencies_ps*.

    A latency is None for a point that failed. Such a point has a part in no ratio, and neither have the points that it
    would be compared with. A point without latency, of 0 ps, has no ratio either. On a complete grid the ratios are
    those of a least squares fit of log(latency) by one number for each value. Source: matched pairs, and analysis of
    variance without interactions; any textbook on the design of experiments.
    """
    used = [at for at, ps in enumerate(latencies_ps) if ps]
    levels = [_level(values, [points[at][axis] for at in used]) for axis, values in axes.items()]
    logs = np.log(np.array([latencies_ps[at] for at in used], np.float64))
    effects, predicted = [], np.zeros(len(used))
    for (axis, values), level, settings in zip(axes.items(), levels, _settings(levels, len(used)), strict=True):
        failed = Counter(points[at][axis] for at, ps in enumerate(latencies_ps) if ps is None)
        found = _compared(_cells(level, settings, logs))
        ratios: dict[str, float | None] = dict.fromkeys(values)
        pairs = dict.fromkeys(values, 0)
        if found is not None:
            known = [(value, number) for number, value in enumerate(level.values) if not np.isnan(found.logs[number])]
            ratios |= {value: exp(found.logs[number]) for value, number in known}
            pairs |= {value: int(found.pairs[number]) for value, number in known}
            predicted += found.logs[level.codes]
        swing = None if found is None else found.swing
        counted = {value: failed[value] for value in values if value in failed}
        effects.append(Effect(axis=axis, ratios=ratios, swing=swing, pairs=pairs, failed=counted))
    is_known = any(effect.swing is not None for effect in effects)
    effects.sort(key=lambda effect: -(effect.swing or 0.0))
    return Sensitivity(effects=effects, explained=_explained(predicted, logs) if is_known else None)


class _Level(NamedTuple):
    """The `values` of an axis that points have, in order, and the number of each point's value among them."""

    values: list[str]
    codes: Ints


class _Cells(NamedTuple):
    """Points grouped by value and by setting of all other axes: number of each, mean of logs, and count of points."""

    codes: Ints
    settings: Ints
    means: Floats
    counts: Ints


class _Compared(NamedTuple):
    """By value of an axis, the log of the ratio (NaN without a pair) and the number of pairs; and the swing."""

    logs: Floats
    pairs: Ints
    swing: float


def _level(values: Sequence[str], texts: Sequence[str]) -> _Level:
    there = set(texts)
    present = [value for value in values if value in there]
    number = {value: at for at, value in enumerate(present)}
    return _Level(present, np.array([number[text] for text in texts], np.int64))


def _settings(levels: Sequence[_Level], n_points: int) -> list[Ints]:
    """Returns for each level the numbers of the points' settings of all other levels; equal settings have one number.

    The settings of the levels before a level, and of those behind it, have a number each, so no number is larger than
    the square of *n_points*.
    """
    before = [np.zeros(n_points, np.int64)]
    behind = [np.zeros(n_points, np.int64)]
    for level in levels[:-1]:
        before.append(_joined(before[-1], level.codes))
    for level in reversed(levels[1:]):
        behind.append(_joined(behind[-1], level.codes))
    return [_joined(one, other) for one, other in zip(before, reversed(behind), strict=True)][: len(levels)]


def _joined(one: Ints, other: Ints) -> Ints:
    """Returns a number for each pair of numbers of *one* and *other*: equal pairs have one, counted from 0."""
    joined: Ints = np.unique(one * (other.max(initial=0) + 1) + other, return_inverse=True)[1].astype(np.int64)
    return joined


def _cells(level: _Level, settings: Ints, logs: Floats) -> _Cells:
    n = max(len(level.values), 1)
    places, inverse, counts = np.unique(settings * n + level.codes, return_inverse=True, return_counts=True)
    return _Cells(places % n, places // n, np.bincount(inverse, logs, len(places)) / counts, counts)


def _compared(cells: _Cells) -> _Compared | None:
    """Returns the ratios against the first value with a pair, and the swing; None where no setting has two values."""
    has_pair = np.bincount(cells.settings)[cells.settings] > 1 if len(cells.codes) else np.zeros(0, np.bool_)
    if not has_pair.any():
        return None
    logs, pairs = _against(cells, int(cells.codes[has_pair].min()))
    slowest, fastest = int(np.nanargmax(logs)), int(np.nanargmin(logs))
    apart = _against(cells, fastest)[0][slowest]
    return _Compared(logs, pairs, exp(max(abs(log) for log in (logs[slowest], logs[fastest], apart) if log == log)))


def _against(cells: _Cells, first: int) -> tuple[Floats, Ints]:
    """Returns for each value the mean of log(latency) less that with *first*, at settings that have both, and the
    number of pairs. Points that are alike in everything are paired one by one.
    """
    n_settings, n_values = int(cells.settings.max()) + 1, int(cells.codes.max()) + 1
    is_first = cells.codes == first
    means, counts = np.zeros(n_settings), np.zeros(n_settings, np.int64)
    means[cells.settings[is_first]] = cells.means[is_first]
    counts[cells.settings[is_first]] = cells.counts[is_first]
    weights = np.minimum(cells.counts, counts[cells.settings])
    pairs = np.bincount(cells.codes, weights, n_values).astype(np.int64)
    sums = np.bincount(cells.codes, weights * (cells.means - means[cells.settings]), n_values)
    logs = np.where(pairs > 0, sums / np.maximum(pairs, 1), np.nan)
    pairs[first] = 0
    return logs, pairs


def _explained(predicted: Floats, logs: Floats) -> float | None:
    """Returns the share of the variance of *logs* that *predicted* explains. NaNs of *predicted* are left out."""
    known = ~np.isnan(predicted)
    if not known.any():
        return None
    spread, rest = float(logs[known].var()), float((logs - predicted)[known].var())
    return 1.0 - rest / spread if spread > 1e-18 else None
