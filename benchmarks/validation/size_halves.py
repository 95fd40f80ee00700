"""Fit a constant to the rows of every second size, and predict the rows of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import measured

STEPS: Final = 400
"""The constants that are tried, from nothing to the median of the measured values."""


class Prediction(NamedTuple):
    """A row, and the time that was predicted for it with a constant to which other sizes were fitted."""

    params: dict[str, str]
    measured: float
    predicted: float

    @property
    def ln_ratio(self) -> float:
        """The natural logarithm of predicted over measured."""
        return math.log(self.predicted / self.measured)


def constant_of(values: Sequence[tuple[float, float]]) -> float:
    """The constant which, added to each simulated value of (measured, simulated), makes the mean size of the logarithm
    of simulated over measured least, on a grid."""
    middle = sorted(value for value, _ in values)[len(values) // 2]
    tried = [middle * step / STEPS for step in range(STEPS + 1)]
    return min(tried, key=lambda each: mean_size([(value, took + each) for value, took in values]))


def mean_size(values: Sequence[tuple[float, float]]) -> float:
    """The mean size of the logarithm of simulated over measured, of (measured, simulated)."""
    return sum(abs(math.log(took / value)) for value, took in values) / len(values)


def halves(rows: Sequence[measured.MeasuredRow], size: str) -> list[list[int]]:
    """The numbers of the *rows* of every second value of the parameter *size*, and those of the others.

    Raises ValueError for one size alone, from which nothing can be predicted.
    """
    sizes = sorted({int(row.params[size]) for row in rows})
    if len(sizes) < 2:
        raise ValueError(f"rows of one {size}, needs two sizes or more")
    chosen = set(sizes[::2])
    return [
        [at for at, row in enumerate(rows) if (int(row.params[size]) in chosen) == is_first]
        for is_first in (True, False)
    ]


def predictions(found: Sequence[measured.Comparison], size: str) -> tuple[list[Prediction], list[float]]:
    """Predicts each of *found*, and returns the constant of each half. Sizes are the values of the parameter *size*,
    and halves every second of them. Raises the ValueError of `halves`."""
    parts = halves([each.row for each in found], size)
    constants = [constant_of([(found[at].row.value, found[at].simulated) for at in half]) for half in parts]
    rows = [
        Prediction(found[at].row.params, found[at].row.value, found[at].simulated + constant)
        for half, constant in zip(parts, reversed(constants), strict=True)
        for at in half
    ]
    return rows, constants


def quantile(rows: Sequence[Prediction | measured.Comparison], part: float) -> float:
    """The size of the logarithm of predicted over measured that *part* of *rows* have at most."""
    ordered = sorted(abs(each.ln_ratio) for each in rows)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def errors_by(rows: Sequence[Prediction], names: Sequence[str]) -> list[dict[str, Any]]:
    """p50, p90 and the median of predicted over measured, of all *rows*, and for each value of parameters *names*."""
    groups: list[tuple[str, Callable[[Prediction], bool]]] = [("all", lambda _: True)]
    for name in names:
        values = sorted({each.params[name] for each in rows}, key=lambda each: (len(each), each))
        groups += [(f"{name}={value}", lambda each, n=name, v=value: each.params[n] == v) for value in values]
    return [_errors(title, [each for each in rows if belongs(each)]) for title, belongs in groups]


def _errors(title: str, rows: Sequence[Prediction]) -> dict[str, Any]:
    middle = sorted(each.ln_ratio for each in rows)[len(rows) // 2]
    found = {"p50": quantile(rows, 0.5), "p90": quantile(rows, 0.9), "ratio": math.exp(middle)}
    return {"rows_of": title, "rows": len(rows), **found}


def table(errors: Sequence[dict[str, Any]]) -> str:
    """A line for each of *errors*."""
    lines = [f"{'':20}{'rows':>6}{'p50':>8}{'p90':>8}{'median ratio':>14}"]
    lines += [f"{e['rows_of']:20}{e['rows']:6}{e['p50']:8.3f}{e['p90']:8.3f}{e['ratio']:14.2f}" for e in errors]
    return "\n".join(lines)
