"""`--from` and `--to`: the part of a run that a trace shows."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import numpy as np

from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.tracks import Slices
from kb_messages import KbError

_MOST_PS = 2**63 - 1


class Window(NamedTuple):
    """Picoseconds from *start_ps* on and before *end_ps*."""

    start_ps: int
    end_ps: int

    def __str__(self) -> str:
        end = "the end" if self.end_ps == _MOST_PS else f"{self.end_ps / PS_PER_NS} ns"
        return f"{self.start_ps / PS_PER_NS} ns to {end}"

    def cut(self, slices: Slices) -> Slices:
        """Returns the slices in service at some time of the window, whole. A slice without length counts at its
        time.
        """
        lasts = np.maximum(slices.end_ps, slices.start_ps + 1)
        kept = (lasts > self.start_ps) & (slices.start_ps < self.end_ps)
        return slices if kept.all() else slices.where(kept)


def parse_window(start_ns: str | None, end_ns: str | None) -> Window:
    """Returns the window between two numbers of nanoseconds; from the begin or to the end where one is None.

    Raises KbError for a text that is no number of nanoseconds, and for a window without time.
    """
    start_ps = 0 if start_ns is None else _ps("--from", start_ns)
    end_ps = _MOST_PS if end_ns is None else _ps("--to", end_ns)
    if end_ps <= start_ps:
        got, needs = f"a window without time, {start_ns or 0} to {end_ns} ns", "an end after the begin"
        raise KbError("--from, --to", got, needs)
    return Window(start_ps, end_ps)


def _ps(option: str, text: str) -> int:
    try:
        ns = Decimal(text)
    except InvalidOperation:
        ns = Decimal("nan")
    if not (ns.is_finite() and 0 <= ns <= _MOST_PS // PS_PER_NS):
        raise KbError(option, repr(text), "nanoseconds, 0 or more", f"such as {option} 1250.5")
    if ns * PS_PER_NS % 1:
        raise KbError(option, f"{text} ns", "whole picoseconds", "write at most three decimals")
    return int(ns * PS_PER_NS)
