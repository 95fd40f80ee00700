"""Script front ends: packages that run a user's script on a simulated chip, found by entry point."""

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
    """A finished launch of a script, whose data are computed: a `kb_triton.host.Launched`."""

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
        """Its times."""

    @property
    def log(self) -> OpLog:
        """Its op log."""

    @property
    def initial(self) -> MemoryStore:
        """The memory before it."""

    @property
    def timing_s(self) -> float:
        """Seconds of this machine that pass 1 took."""

    @property
    def data_s(self) -> float:
        """Seconds of this machine that pass 2 took."""


class TriedConfig(Protocol):
    """A configuration that an autotuner tried."""

    @property
    def config(self) -> str:
        """What it is."""

    @property
    def ps(self) -> int | None:
        """Picoseconds of a launch; None where there was none."""

    @property
    def why_not(self) -> str:
        """What was in the way."""


class ScriptTuning(Protocol):
    """What an autotuner found out."""

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
        """The one that took the least time."""


class ScriptDevice(Protocol):
    """The chip that the launches of a script run on."""

    @property
    def topology(self) -> Topology:
        """The chip."""

    @property
    def tunings(self) -> Sequence[ScriptTuning]:
        """What autotuners found out so far."""

    def standing(self) -> list[str]:
        """Where the programs of the last launch stand, as lines of text."""

    def log_so_far(self) -> OpLog | None:
        """The op log of a launch that was interrupted, up to there; None for one that is timed alone."""


class ScriptFrontEnd(Protocol):
    """What a package has to have to run scripts: `kb_triton.script`, which says what each call does."""

    def new_device(
        self,
        options: Mapping[str, Any],
        watched: Callable[[], Sequence[Observer]],
        on_launch: Callable[[ScriptLaunch], None],
        around: Callable[[bool], AbstractContextManager[object]],
    ) -> ScriptDevice:
        """The device for a script, whose engines are watched, and which tells of each launch.

        *around* is a block around each launch, and with True around each one that an autotuner times alone.
        """

    def execute(self, device: Any, script: Path, arguments: Sequence[str], options: Mapping[str, Any]) -> None:
        """Run *script*."""

    def repeat(
        self, host: Host, number: int, script: Path, arguments: Sequence[str], options: Mapping[str, Any]
    ) -> None:
        """Run *script* up to launch *number*, which runs on *host*."""


def script_front_end(name: str = TRITON) -> ScriptFrontEnd:
    """The front end *name*. Raises BenchmarkError where its package is not installed."""
    found = [each for each in entry_points(group=GROUP) if each.name == name]
    if not found:
        fix = f"install kb-{name}: pip install kb-{name}"
        raise BenchmarkError("kb exec", f"a Python without kb-{name}", f"kb-{name}, which runs such scripts", fix)
    front_end: ScriptFrontEnd = found[0].load()
    return front_end


_MOST_NBYTES = 16 << 20
"""Of a script. Source: assumed."""


class ScriptBenchmark(Benchmark[Any]):
    """The launch that *record* describes. Its parameters are *shown*, the arguments of the kernel as reports show them.

    Its data are those of the script, which judges them itself: there is no reference.
    """

    def __init__(self, record: RecordedScript, shown: Mapping[str, object]) -> None:
        self.Params = msgspec.defstruct("Arguments", [(name, Any) for name in shown], kw_only=True)  # type: ignore[misc]
        self.arguments = self.Params(**shown)
        self._record = record

    def inputs(self, p: Any, rng: np.random.Generator) -> Arrays:
        """None: the script makes them."""
        return {}

    def launch(self, host: Host, p: Any, tensors: Arrays) -> dict[str, Tensor]:
        """Run the script up to the launch, on *host*. Raises BenchmarkError for a script that has changed."""
        record, path = self._record, Path(self._record.path)
        if hashlib.sha256(read_bytes(path, BenchmarkError, _MOST_NBYTES)).hexdigest() != record.sha256:
            raise BenchmarkError(str(path), "another script than that of the run", "the same one", "run it again")
        script_front_end(record.front_end).repeat(host, record.launch, path, record.arguments, record.options)
        return {}

    def reference(self, p: Any, inputs: Arrays) -> Arrays:
        """None."""
        return {}

    def flops(self, p: Any) -> int:
        """0: a script does not say."""
        return 0
