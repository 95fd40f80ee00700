"""The closing sentence of a run: its largest cost, and the changes of chip and kernel that gain most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import UnsetType

from kb_cli.run.base.remedy import LEAST_GAIN, Remedy
from kb_cli.run.base.workload_result import OpResult, model_kernels_ps
from kb_cli.terminal.units import duration, percent, signed_percent

TOLD: Final = 2
"""The number of remedies that the sentence names. If they have one basis, the best one of the other basis follows."""


class Timed(NamedTuple):
    """The time of which remedies save shares, and what it is: "" for the latency of a run."""

    latency_ps: int
    what: str = ""

    @classmethod
    def of(cls, latency_ps: int, ops: Sequence[OpResult] | UnsetType) -> Timed:
        """Returns the latency of a run; for one with *ops*, the time of the kernels of the whole model."""
        if isinstance(ops, UnsetType) or not ops:
            return cls(latency_ps)
        return cls(model_kernels_ps(ops), " in the kernels of the model")


class Tried(NamedTuple):
    """The number of levers of the chip that were `measured`, and of `all` of them.

    `best_open` is the largest gain at best of a lever that was not measured, 0 for none.
    """

    measured: int
    all: int
    best_open: float


def best_first(remedies: Iterable[Remedy]) -> list[Remedy]:
    """Returns *remedies*, the most gain first; of equals, a measured one before an estimated one."""
    return sorted(remedies, key=lambda each: (-each.gain, each.basis != "measured"))


def closing_sentence(
    bounded_by: str, timed: Timed, remedies: Sequence[Remedy], tried: Tried | None = None, folder: str = ""
) -> str:
    """Returns *bounded_by*, the sentence on the largest cost, followed by the *remedies* that gain most.

    *tried* is None where nobody measured levers. Behind the first remedy, a lever is named only if no lever that was
    not measured may gain more. Where one may gain more than the first remedy, the sentence says how many were measured,
    and names the command that measures all levers of the run in *folder*.
    """
    told = _told(remedies, 0.0 if tried is None else tried.best_open)
    text = bounded_by
    if told:
        text += f" To change first: {'; next: '.join(_clause(each, timed) for each in told)}."
    return text if tried is None else f"{text}{_of_all(told, tried, folder)}"


def _told(remedies: Sequence[Remedy], best_open: float) -> list[Remedy]:
    sure = [*remedies[:1], *(each for each in remedies[1:] if each.basis == "estimated" or each.gain >= best_open)]
    told = sure[:TOLD]
    return told + [each for each in sure[TOLD:] if all(each.basis != other.basis for other in told)][:1]


def _of_all(told: Sequence[Remedy], tried: Tried, folder: str) -> str:
    """Returns the sentence on the levers that gain nothing, or that were not measured; "" where there is none."""
    least, has_measured = percent(LEAST_GAIN), any(each.basis == "measured" for each in told)
    is_open = tried.best_open >= LEAST_GAIN
    if is_open and (not has_measured or tried.best_open >= max((each.gain for each in told[:1]), default=0.0)):
        more = f"; kb report {folder} --levers {tried.all} measures all" if folder else ""
        return f" {tried.measured} of {tried.all} levers of the chip were measured{more}."
    if has_measured:
        return ""
    if not tried.all:
        return f" No value of the chip gains {least}: none has 2 % of the critical path."
    if tried.measured == tried.all:
        return f" No value of the chip gains {least}: all {tried.all} levers were measured."
    some = f"{tried.measured} of {tried.all} levers were measured, and the others gain less at best"
    return f" No value of the chip gains {least}: {some}."


def _clause(remedy: Remedy, timed: Timed) -> str:
    why = ": ".join(each for each in (remedy.line, remedy.flaw) if each)
    text = f"{remedy.change} ({why}): " if why else f"{remedy.change}: "
    if remedy.basis == "estimated":
        return f"{text}{signed_percent(-remedy.gain)} (estimated)"
    best = "" if isinstance(remedy.best, UnsetType) else f"; {signed_percent(-remedy.best)} at best"
    then = duration(round(timed.latency_ps * (1 - remedy.gain)))
    return f"{text}{then}{timed.what}, {signed_percent(-remedy.gain)} (measured{best})"
