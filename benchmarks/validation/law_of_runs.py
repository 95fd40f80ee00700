"""The command line of a law that every run has to keep: bundled benchmarks on bundled chips, and random cases."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from devices import CHIPS

_CASES: Final = 200
"""The random cases of a call without options."""


class Judged(Protocol):
    """A run: sentences on how it breaks the law, and the error of a run that kb refuses."""

    @property
    def broken(self) -> Sequence[str]:
        """The sentences, none for a run that keeps the law."""

    @property
    def refused(self) -> str:
        """The error, "" for a run that kb takes."""


FoundT = TypeVar("FoundT", bound=Judged)


def check(
    doc: str | None,
    arguments: Sequence[str] | None,
    bundled: Callable[[Sequence[Path]], Iterable[tuple[str, FoundT]]],
    random_run: Callable[[int], FoundT],
    summary: Callable[[Sequence[FoundT]], str],
) -> int:
    """Judges the runs that *arguments* ask for, and prints each one that breaks the law or is refused.

    *bundled* judges benchmarks on chips, *random_run* a random case. Returns the exit code: 1 if a run breaks the law.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, metavar="N", help="N random cases, and nothing else")
    parser.add_argument("--bundled", nargs="+", metavar="CHIP", choices=CHIPS, help="bundled benchmarks on these chips")
    asked = parser.parse_args(arguments)

    def runs() -> Iterator[tuple[str, FoundT]]:
        if asked.cases is None:
            yield from bundled([CHIPS[name] for name in asked.bundled or CHIPS])
        n_random = asked.cases if asked.cases is not None else 0 if asked.bundled else _CASES
        yield from ((f"random {seed}", random_run(seed)) for seed in range(n_random))

    found: list[FoundT] = []
    for name, each in runs():
        found.append(each)
        for sentence in [*each.broken, *([f"refused: {each.refused}"] if each.refused else [])]:
            print(f"{name}: {sentence}", flush=True)
    print(summary(found))
    return 1 if any(each.broken for each in found) else 0
