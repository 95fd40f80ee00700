"""Says on the way how far thousands of cases have come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Final, TypeVar

_EVERY_S: Final = 15.0
_Result = TypeVar("_Result")


def told(results: Iterable[_Result], count: int) -> Iterator[_Result]:
    """*results*, of *count* cases. A line now and then says how many there were."""
    began = last = monotonic()
    for done, result in enumerate(results, 1):
        yield result
        if monotonic() - last > _EVERY_S:
            last = monotonic()
            print(f"{done} of {count} after {last - began:.0f} s", flush=True)
