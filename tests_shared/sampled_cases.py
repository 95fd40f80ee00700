"""Of cases that prove the same thing the tests try some. `nox -s cases` tries them all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")
IS_SAMPLED = "KB_ALL_CASES" not in os.environ


def sampled(cases: Sequence[Case], n: int) -> list[Case]:
    """*n* >= 2 of *cases* or all of them, evenly taken from the first to the last; under `nox -s cases` each one."""
    count = min(n, len(cases)) if IS_SAMPLED else len(cases)
    return [cases[number * (len(cases) - 1) // max(count - 1, 1)] for number in range(count)]
