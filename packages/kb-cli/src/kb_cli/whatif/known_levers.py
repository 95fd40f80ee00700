"""The levers of a finished run with the measurements that its folder has. No code of the folder is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import UNSET, Struct

from kb_cli.run.base.remedy import LEAST_GAIN, Remedy
from kb_cli.run.folders.identity import versions
from kb_cli.run.observe.closing_sentence import TOLD, Tried
from kb_cli.run.records.run_chip import chip_of
from kb_cli.run.records.run_json import read_one_run
from kb_cli.whatif.lever_chances import TriedLever, lever_chances
from kb_cli.whatif.levers_file import read_measured
from kb_cli.whatif.timed_run import TimedRun, timed_run


class Levers(Struct, frozen=True, kw_only=True):
    """The levers of a run, the most gain first, then the ones that were not measured, the best bound first.

    `chances` counts all levers and sets of levers of the run, of which a part may have been left out.
    """

    latency_ps: int
    levers: list[TriedLever]
    chances: int = 0

    @property
    def measured(self) -> int:
        """The number of levers that were measured."""
        return sum(each.latency_ps is not None for each in self.levers)

    @property
    def tried(self) -> Tried:
        """The counts for the closing sentence of the run."""
        return Tried(self.measured, self.chances, self._best_open)

    @property
    def is_settled(self) -> bool:
        """Whether no lever that was not measured may change the closing sentence, by its bound."""
        sure = [each for each in self.remedies[:TOLD] if each.gain >= self._best_open]
        return len(sure) == TOLD or self._best_open < LEAST_GAIN

    @property
    def _best_open(self) -> float:
        bounds = (each.bound_ps for each in self.levers if each.latency_ps is None)
        best_ps = min(bounds, default=self.latency_ps)
        return 1 - best_ps / self.latency_ps if self.latency_ps else 0.0

    @property
    def remedies(self) -> list[Remedy]:
        """The measured levers that gain something, the most gain first.

        A set of levers is left out where a part of it that is told gains as much but for `LEAST_GAIN`.
        """
        told: list[TriedLever] = []
        for each in sorted(self.levers, key=lambda lever: len(lever.set)):  # a part comes before the sets with it
            gain = each.gain or 0.0
            has_part = any(
                part.set.items() < each.set.items() and (part.gain or 0.0) >= gain - LEAST_GAIN for part in told
            )
            if gain >= LEAST_GAIN and not has_part:
                told.append(each)
        return [_remedy(each, self.latency_ps) for each in ranked(told)]


def _remedy(lever: TriedLever, before_ps: int) -> Remedy:
    gain, best = lever.gain or 0.0, 1 - lever.bound_ps / before_ps
    return Remedy(
        rule="lever",
        part=lever.name.partition(" of ")[2],
        flaw=lever.part,
        change=f"{lever.name[0].lower()}{lever.name[1:]}",
        gain=gain,
        basis="measured",
        best=best if best >= gain else UNSET,
    )


def known_levers(folder: Path) -> Levers:
    """Returns the levers of the run in *folder* with the measurements of its levers.json, the best bound first.

    No code of the folder is run. Raises RunFolderError as `levers` does.
    """
    run = read_one_run(folder)
    topology = chip_of(folder, run)
    timed = timed_run(folder, run, topology)
    known = {_key(each.set): each for each in read_measured(folder, run.sha256, versions(topology))}
    found = [
        known[key].of(each, timed.latency_ps) if (key := _key(each.set)) in known else each
        for each in best_first(timed)
    ]
    return Levers(latency_ps=timed.latency_ps, levers=found, chances=len(found))


def best_first(timed: TimedRun) -> list[TriedLever]:
    """Returns the levers of *timed*, the best bound first; of equals, the fewest values, then the most of the path."""
    return sorted(lever_chances(timed), key=lambda each: (each.bound_ps, len(each.set), -each.path_ps))


def ranked(tried: Iterable[TriedLever]) -> list[TriedLever]:
    """Returns the levers *tried*, the most gain first, then the ones that were not measured in their order."""
    return sorted(tried, key=lambda each: (each.gain is None, -(each.gain or 0.0)))


def _key(places: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(places.items()))
