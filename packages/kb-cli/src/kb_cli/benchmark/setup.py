"""What one run is a run of: benchmark, parameters, chip, seed, and which passes to do."""

from __future__ import annotations

from typing import Any, NamedTuple

from kb_cli.benchmark.load import LoadedBenchmark
from kb_messages import BenchmarkError
from kb_topology import Topology


class Setup(NamedTuple):
    """What is run, on what, and how much of it: with `log` ops are recorded, with `verify` they are computed.

    With `sanitize`, which needs the log, the run is searched for missing waits, races and leaks; it changes nothing.
    """

    loaded: LoadedBenchmark
    params: Any
    topology: Topology
    seed: int
    verify: bool
    log: bool
    sanitize: bool = False

    @property
    def checks(self) -> bool:
        """Whether there is a log to verify."""
        return self.verify and self.log

    def error(self, method: str, got: str, needs: str) -> BenchmarkError:
        """An answer of *method* that cannot be used; the caller raises it."""
        return BenchmarkError(f"{self.loaded.label}: {method}()", got, needs)
