"""The setup of one run: benchmark, parameters, chip, seed, and the passes to do."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kb_cli.benchmark.load import LoadedBenchmark
from kb_cli.benchmark.run_records import CheckMode
from kb_engine import Workload
from kb_messages import BenchmarkError
from kb_topology import Topology


class Setup(NamedTuple):
    """One run to do. `log` records the ops. `verify` computes the data from the log and compares the outputs by
    `check`.

    `sanitize` searches the log for missing waits, races and leaks; it changes no result. `races` looks for races alone,
    within limits that keep the cost small, unless `sanitize` does. `rules` looks for flaws of kernels. `compute` asks
    for the outputs of pass 2, also where nothing is compared; that needs the log. With `templates`, programs of a grid
    may be replayed without their kernel. `exact` is the option of the Engine.
    """

    loaded: LoadedBenchmark
    params: Any
    topology: Topology
    seed: int
    verify: bool
    log: bool
    sanitize: bool = False
    races: bool = False
    compute: bool = False
    rules: bool = True
    templates: bool = True
    check: CheckMode = CheckMode.AUTO
    exact: Literal["isolated", "events", "check"] = "isolated"

    @property
    def checks(self) -> bool:
        """Whether the run will be verified, which needs the log."""
        return self.verify and self.log

    @property
    def workload(self) -> Workload[Any] | None:
        """The benchmark if it is a workload of many ops; None for any other benchmark."""
        return self.loaded.bench if isinstance(self.loaded.bench, Workload) else None

    @property
    def where(self) -> str:
        """The run as the place of an error: its benchmark and its chip."""
        return f"{self.loaded.name} on {self.topology.name}"

    def place(self, method: str) -> str:
        """Returns the author's *method* as the place of an error."""
        return f"{self.loaded.label}: {method}()"

    def error(self, method: str, got: str, needs: str) -> BenchmarkError:
        """Returns the error for an unusable result of the author's *method*. The caller raises the error."""
        return BenchmarkError(self.place(method), got, needs)
