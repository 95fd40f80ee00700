"""A host that measures its calls: seconds of launches on this machine, and picoseconds on the chip."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy.typing as npt

from kb_cli.run.base.progress import PASS_1, SET_UP, RunProgress
from kb_engine import Engine, Host, LaunchResult, Tensor


class HostTimes(NamedTuple):
    """Picoseconds of the host's calls: writes and reads of tensors, updates of MMUs, and launches.

    `launch_ps` is from a call to the first kernel's start, `response_ps` from the last kernel's end to the answer.
    """

    write_ps: int
    read_ps: int
    map_ps: int
    launch_ps: int
    response_ps: int


class TimedHost(Host):
    """A host that adds up the seconds of its launches on this machine, and reports its steps to *progress*."""

    def __init__(self, engine: Engine, root: Path, progress: RunProgress) -> None:
        super().__init__(engine, root)
        self.wall_s = 0.0
        self._progress = progress

    def launch(self, *args: Any, **options: Any) -> LaunchResult:
        """Launches a kernel as `Host.launch` does, and adds its seconds to `wall_s`."""
        began = perf_counter()
        self._progress.begin(PASS_1, f"launch {number}" if (number := len(self.launches) + 1) > 1 else "")
        try:
            result = super().launch(*args, **options)
        finally:
            self.wall_s += perf_counter() - began
        self._progress.mention(SET_UP, "launch()")
        return result

    def write(self, tensor: Tensor, data: npt.NDArray[Any]) -> None:
        """Writes *data* to *tensor* as `Host.write` does, and reports the step."""
        self._progress.mention(SET_UP, f"placing {tensor.name}")
        super().write(tensor, data)

    def replicas(self, name: str, data: npt.NDArray[Any], *args: Any, **options: Any) -> list[Tensor]:
        """Places copies of *data* as `Host.replicas` does, and reports the step."""
        self._progress.mention(SET_UP, f"placing {name}")
        return super().replicas(name, data, *args, **options)

    @property
    def times(self) -> HostTimes | None:
        """The times of all calls so far; None on a topology without a host, where calls take no time."""
        if self.engine.host_calls is None:
            return None
        return HostTimes(
            write_ps=self.write_ps,
            read_ps=self.read_ps,
            map_ps=self.map_ps,
            launch_ps=sum(each.start_ps - each.call_ps for each in self.launches),
            response_ps=sum(each.response_ps - each.end_ps for each in self.launches),
        )
