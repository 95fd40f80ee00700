"""The points of a sweep of a model as cells: the time, tokens a second, the floor, and the costliest op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kb_cli.run.base.model_text import TIME_NAMES, rate_text
from kb_cli.sweep.job import PointModel, PointResult
from kb_cli.sweep.sweep import SweepPoint, SweepResult
from kb_cli.terminal.units import duration, percent

MODEL_TEXT: Final = (
    "The time of the whole model, the time in which its weights and caches pass through HBM once, and the op that "
    "takes most of the time of its kernels."
)


def model_points(result: SweepResult) -> list[tuple[SweepPoint, PointResult, PointModel]]:
    """Returns the points of *result* whose result has the time of a model, in the order of the axes."""
    return [
        (point, point.result, point.result.model)
        for point in result.points
        if point.result is not None and isinstance(point.result.model, PointModel)
    ]


def model_axes(result: SweepResult) -> list[str]:
    """Returns the axes of *result* that have several values, added up or not; the first if there is none."""
    return [axis for axis, values in result.axes.items() if len(values) > 1] or list(result.axes)[:1]


def model_headers(result: SweepResult) -> tuple[str, ...]:
    """Returns the headers of `model_cells`."""
    phases = {model.phase for _, _, model in model_points(result)}
    time = TIME_NAMES[phases.pop()] if len(phases) == 1 else "time"
    return *model_axes(result), time, "rate", "floor", "over floor", "costliest op", "of kernels"


def model_cells(result: SweepResult) -> Iterator[tuple[str, ...]]:
    """Yields for each point of a model its values of `model_axes`, and its figures."""
    axes = model_axes(result)
    for point, figures, model in model_points(result):
        per_s = model.items / figures.latency_ps * 1e12
        floor = "-" if model.floor_ps is None else duration(model.floor_ps)
        over = f"{figures.latency_ps / model.floor_ps:.2f}x" if model.floor_ps else "-"
        times = duration(figures.latency_ps), rate_text(per_s, model.unit), floor, over
        yield *(point.values[axis] for axis in axes), *times, model.op, percent(model.op_share)
