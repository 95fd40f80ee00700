"""Scripts: front ends that run a user's script on a simulated chip, and a launch of a script as a benchmark."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import numpy as np

from kb_cli.benchmark.run_records import RecordedScript
from kb_dataexec import MemoryStore, OpLog
from kb_engine import Arrays, Benchmark, Host, LaunchResult, Tensor
from kb_engine.observe import Observer
from kb_messages import BenchmarkError, read_bytes
from kb_topology import Topology

GROUP: Final = "kb.scripts"
TRITON: Final = "triton"


class ScriptLaunch(Protocol):
    """A finished launch of a script, with its computed data. `kb_triton.host.Launched` has this form."""

    @property
    def kernel(self) -> str:
        """The name of the kernel."""

    @property
    def file(self) -> Path:
        """The file of the kernel."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Programs along each axis."""

    @property
    def arguments(self) -> Mapping[str, object]:
        """The arguments as reports show them."""

    @property
    def host(self) -> Host:
        """The host that made the launch."""

    @property
    def result(self) -> LaunchResult:
        """The times of the launch."""

    @property
    def log(self) -> OpLog:
        """The op log of the launch."""

    @property
    def initial(self) -> MemoryStore:
        """The memory before the launch."""

    def element_at(self, owner: int, offset: int) -> tuple[str, tuple[int, ...]] | None:
        """Returns the argument and the index of the element with a byte of memory *owner*; None for another byte."""

    @property
    def timing_s(self) -> float:
        """Seconds of pass 1 on this machine."""

    @property
    def data_s(self) -> float:
        """Seconds of pass 2 on this machine."""


class TriedConfig(Protocol):
    """A configuration that an autotuner tried."""

    @property
    def config(self) -> str:
        """The configuration as text."""

    @property
    def ps(self) -> int | None:
        """Picoseconds of a launch; None for a configuration without a launch."""

    @property
    def why_not(self) -> str:
        """The reason for which there was no launch."""

    @property
    def same_as(self) -> str:
        """An earlier configuration whose launch is equal, so that it was not repeated; "" for none."""


class ScriptTuning(Protocol):
    """The result of an autotuner."""

    @property
    def kernel(self) -> str:
        """The name of the kernel."""

    @property
    def key(self) -> Mapping[str, Any]:
        """The arguments for which configurations were tried."""

    @property
    def tried(self) -> Sequence[TriedConfig]:
        """The configurations, in their order."""

    @property
    def best(self) -> str:
        """The configuration that took the least time."""

    @property
    def idle(self) -> Sequence[str]:
        """The options and constants in which configurations with equal launches differ."""


class ScriptDevice(Protocol):
    """The chip that the launches of a script run on."""

    @property
    def topology(self) -> Topology:
        """The chip."""

    @property
    def tunings(self) -> Sequence[ScriptTuning]:
        """The results of autotuners so far."""

    def kernel_positions(self) -> list[str]:
        """Returns one line for each program of the last launch that says where it stands."""

    def log_so_far(self) -> OpLog | None:
        """Returns the op log of a launch that was interrupted, up to there; None for a launch that is only timed."""


class ScriptFrontEnd(Protocol):
    """The interface of a package that runs scripts. `kb_triton.script` has it."""

    def new_device(
        self,
        options: Mapping[str, Any],
        watched: Callable[[], Sequence[Observer]],
        on_launch: Callable[[ScriptLaunch], None],
        around: Callable[[bool], AbstractContextManager[object]],
    ) -> ScriptDevice:
        """Returns the device for a script. *watched* returns observers for its engines, and *on_launch* is called per
        launch.

        *around* returns a block around each launch; its argument is True for a launch that an autotuner only times.
        """

    def execute(self, device: Any, script: Path, arguments: Sequence[str], options: Mapping[str, Any]) -> None:
        """Runs *script* on *device*."""

    def repeat(
        self, host: Host, number: int, script: Path, arguments: Sequence[str], options: Mapping[str, Any]
    ) -> None:
        """Runs *script* up to launch *number*, which runs on *host*."""


def script_front_end(name: str = TRITON) -> ScriptFrontEnd:
    """Returns the front end *name*. Raises BenchmarkError where its package is not installed."""
    found = [each for each in entry_points(group=GROUP) if each.name == name]
    if not found:
        fix = f"install kb-{name}: pip install kb-{name}"
        raise BenchmarkError("kb exec", f"a Python without kb-{name}", f"kb-{name}, which runs such scripts", fix)
    front_end: ScriptFrontEnd = found[0].load()
    return front_end


_MOST_NBYTES = 16 << 20
"""The most bytes of a script. Source: assumed."""


class ScriptBenchmark(Benchmark[Any]):
    """One launch of a user's script as a benchmark, so that it can run again on another chip.

    *record* describes the launch, and *shown* has the arguments of the kernel as reports show them. The script makes
    its data and judges the results itself, so there is no reference.
    """

    def __init__(self, record: RecordedScript, shown: Mapping[str, object]) -> None:
        self.Params = msgspec.defstruct("Arguments", [(name, Any) for name in shown], kw_only=True)  # type: ignore[misc]
        self.arguments = self.Params(**shown)
        self._record = record

    def inputs(self, p: Any, rng: np.random.Generator) -> Arrays:
        """Returns {}: the script makes its inputs."""
        return {}

    def launch(self, host: Host, p: Any, tensors: Arrays) -> dict[str, Tensor]:
        """Runs the script up to the launch, on *host*. Raises BenchmarkError for a script that has changed."""
        record, path = self._record, Path(self._record.path)
        if hashlib.sha256(read_bytes(path, BenchmarkError, _MOST_NBYTES)).hexdigest() != record.sha256:
            raise BenchmarkError(
                str(path), "a script that has changed since the run", "the script of the run", "run it again"
            )
        script_front_end(record.front_end).repeat(host, record.launch, path, record.arguments, record.options)
        return {}

    def reference(self, p: Any, inputs: Arrays) -> Arrays:
        """Returns {}."""
        return {}

    def flops(self, p: Any) -> int:
        """Returns 0: a script does not state its operations."""
        return 0
