"""Of cases that prove the same thing the tests try some. `nox -s cases` tries them all."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

Case = TypeVar("Case")
IS_SAMPLED = "KB_ALL_CASES" not in os.environ


def sampled(cases: Sequence[Case], n: int) -> list[Case]:
    """*n* >= 1 of *cases* or all of them, evenly taken from the first to the last; under `nox -s cases` each one."""
    count = min(n, len(cases)) if IS_SAMPLED else len(cases)
    return [cases[number * (len(cases) - 1) // max(count - 1, 1)] for number in range(count)]


def examples(n: int) -> int:
    """How many of *n* random examples hypothesis tries: a third but at least ten; under `nox -s cases` all.

    Each run draws other ones.
    """
    return min(n, max(n // 3, 10)) if IS_SAMPLED else n


def sampled_of_each(cases: Sequence[Case], kind: Callable[[Case], Hashable], n: int) -> list[Case]:
    """As `sampled`, of the cases of each *kind*. The cases of the next kind are taken from the next one on."""
    kinds: dict[Hashable, list[Case]] = {}
    for case in cases:
        kinds.setdefault(kind(case), []).append(case)
    turned = [each[at % len(each) :] + each[: at % len(each)] for at, each in enumerate(kinds.values())]
    return [case for each in turned for case in sampled(each, n)]
