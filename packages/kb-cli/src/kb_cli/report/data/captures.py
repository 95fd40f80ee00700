"""The report of `kb show` on one captured value, and on its difference from a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from kb_cli.run.records.captures import StoredCapture
from kb_dataexec import compare, default_tolerance
from kb_messages import DType, KbError


class CaptureDifference(Struct, frozen=True, kw_only=True):
    """The difference of a value from an array: the largest one, and its place.

    `n_beyond` counts the elements beyond the default tolerance of the dtype, for sums of one term. `got` and `expected`
    are the elements at `at`. `max_abs` is null where one of the two is NaN or infinite and the other is not.
    """

    against: str
    max_abs: float | None
    at: list[int]
    got: float | None
    expected: float | None
    n_beyond: int


class CaptureReport(Struct, frozen=True, kw_only=True):
    """One captured value. `least`, `most` and `mean` are of its finite elements, and null without any."""

    name: str
    number: int
    pe: int
    pe_id: str
    line: str
    shape: tuple[int, ...]
    dtype: DType
    least: float | None
    most: float | None
    mean: float | None
    n_not_finite: int
    difference: CaptureDifference | UnsetType = UNSET


def report_of(stored: StoredCapture, value: npt.NDArray[Any]) -> CaptureReport:
    """Returns the report on *value*, the value of the capture *stored*."""
    wide = value.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    least, most, mean = (float(f(finite)) if finite.size else None for f in (np.min, np.max, np.mean))
    return CaptureReport(
        name=stored.name,
        number=stored.number,
        pe=stored.pe,
        pe_id=stored.pe_id,
        line=stored.line,
        shape=stored.shape,
        dtype=stored.dtype,
        least=least,
        most=most,
        mean=mean,
        n_not_finite=value.size - finite.size,
    )


def compared(
    report: CaptureReport, value: npt.NDArray[Any], reference: npt.NDArray[Any], against: str
) -> CaptureReport:
    """Adds to *report* how *value* differs from *reference*. Raises KbError when their shapes differ."""
    if reference.shape != value.shape:
        raise KbError(against, f"shape {reference.shape}", f"that of {report.name}, {value.shape}")
    found = compare(report.name, value, reference, default_tolerance(reference, report.dtype))
    wide, expected = value.astype(np.float64), reference.astype(np.float64)
    same = (wide == expected) | (np.isnan(wide) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(wide - expected))
    error = np.where(np.isnan(error), np.inf, error)
    at = np.unravel_index(int(error.argmax()), error.shape) if error.size else ()
    return replace(
        report,
        difference=CaptureDifference(
            against=against,
            max_abs=_finite(error[at]) if error.size else 0.0,
            at=[int(each) for each in at],
            got=_finite(wide[at]) if error.size else None,
            expected=_finite(expected[at]) if error.size else None,
            n_beyond=found.n_wrong,
        ),
    )


def _finite(number: Any) -> float | None:
    return float(number) if np.isfinite(number) else None
