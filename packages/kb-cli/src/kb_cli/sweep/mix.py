"""The benchmarks of a sweep: one, or several that run on each chip, each so often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct

from kb_messages import BenchmarkError

BENCHMARK: Final = "benchmark"
"""The name of the axis over the benchmarks of a sweep."""


class MixedBenchmark(Struct, frozen=True, forbid_unknown_fields=True):
    """A benchmark of a sweep's file, which counts `count` times, and its parameters, a value each."""

    benchmark: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    params: dict[str, Any] = {}


class SweptBenchmark(Struct, frozen=True):
    """A benchmark of a sweep with parameters that have one value each. `label` is its value of the axis `benchmark`,
    "" for the only benchmark. Its latency counts `count` times.
    """

    label: str
    benchmark: str
    params: Mapping[str, str]
    count: int = 1


def swept_benchmarks(given: Sequence[MixedBenchmark], params: Sequence[Mapping[str, str]]) -> list[SweptBenchmark]:
    """Returns the benchmarks *given*, whose *params* are texts. Labels have the parameters where names alone are not
    unique. Raises BenchmarkError for two that are equal.
    """
    names = [each.benchmark for each in given]
    found: list[SweptBenchmark] = []
    for each, texts in zip(given, params, strict=True):
        if any((known.benchmark, known.params) == (each.benchmark, texts) for known in found):
            got = f"{each.benchmark} with the same parameters twice"
            raise BenchmarkError("benchmarks", got, "benchmarks that differ", "add up their counts")
        words = "".join(f" {name}={text}" for name, text in texts.items()) if names.count(each.benchmark) > 1 else ""
        found.append(SweptBenchmark(f"{each.count} x {each.benchmark}{words}", each.benchmark, texts, each.count))
    return found
