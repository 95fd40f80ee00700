"""What one run is a run of: benchmark, parameters, chip, seed, and which passes to do."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kb_cli.benchmark.load import LoadedBenchmark
from kb_cli.benchmark.run_records import CheckMode
from kb_messages import BenchmarkError
from kb_topology import Topology


class Setup(NamedTuple):
    """One run to do. `log` records the ops, and `verify` computes them from the log and compares the outputs, as
    `check` says.

    `sanitize` searches the log for missing waits, races and leaks; it changes no result. `compute` asks for the outputs
    of pass 2, also where nothing is compared; that needs the log. With `templates`, programs of a grid may be repeated
    without their kernel. `exact` says how commands are simulated that nothing can meet, as the Engine has it.
    """

    loaded: LoadedBenchmark
    params: Any
    topology: Topology
    seed: int
    verify: bool
    log: bool
    sanitize: bool = False
    compute: bool = False
    templates: bool = True
    check: CheckMode = CheckMode.AUTO
    exact: Literal["closed", "events", "check"] = "closed"

    @property
    def checks(self) -> bool:
        """Whether the run will be verified: that needs the log."""
        return self.verify and self.log

    @property
    def where(self) -> str:
        """The run as the place of an error: its benchmark and its chip."""
        return f"{self.loaded.name} on {self.topology.name}"

    def place(self, method: str) -> str:
        """The author's *method* as the place of an error."""
        return f"{self.loaded.label}: {method}()"

    def error(self, method: str, got: str, needs: str) -> BenchmarkError:
        """The error for an unusable answer of the author's *method*. The caller raises the error."""
        return BenchmarkError(self.place(method), got, needs)
