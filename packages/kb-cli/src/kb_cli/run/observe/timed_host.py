"""A host that measures its calls: seconds of launches on this machine, and picoseconds on the chip."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy.typing as npt

from kb_cli.run.base.progress import PASS_1, SET_UP, RunProgress
from kb_dataexec.analysis import Element
from kb_engine import Engine, Host, Tensor, TensorRef


class HostTimes(NamedTuple):
    """Picoseconds of the host's calls: writes and reads of tensors, updates of MMUs, and launches.

    `launch_ps` is from a call to the first kernel's start, `response_ps` from the last kernel's end to the answer.
    Calls of streams are left out, because the host does not wait for them.
    """

    write_ps: int
    read_ps: int
    map_ps: int
    launch_ps: int
    response_ps: int


def argument_names(kernel: Any, *arguments: Any) -> dict[int, str]:
    """Returns the name of the parameter of *kernel* for each tensor among *arguments*, by its first address."""
    try:
        parameters = [*signature(kernel).parameters][1:]
    except (TypeError, ValueError):  # the launch says what is wrong with such a kernel
        return {}
    names: dict[int, str] = {}

    def add(name: str, argument: object) -> None:
        tensor = argument.tensor if isinstance(argument, TensorRef) else argument
        if isinstance(tensor, Tensor):
            names.setdefault(tensor.addresses[0][0], name)
        elif type(argument) in (list, tuple):
            for number, each in enumerate(argument):  # type: ignore[var-annotated, arg-type]
                if isinstance(each, Tensor | TensorRef):
                    add(f"{name}[{number}]", each)

    for name, argument in zip(parameters, arguments, strict=False):
        add(name, argument)
    return names


class TimedHost(Host):
    """A host that adds up the seconds of its launches on this machine, and reports its steps to *progress*."""

    def __init__(self, engine: Engine, root: Path, progress: RunProgress, needs_data: bool = True) -> None:
        super().__init__(engine, root, needs_data)
        self.wall_s = 0.0
        self._names: list[dict[int, str]] = []
        self._progress = progress

    def launch(self, *args: Any, **options: Any) -> Any:
        """Launches a kernel as `Host.launch` does, and adds its seconds to `wall_s`."""
        began = perf_counter()
        self._progress.begin(PASS_1, f"launch {number}" if (number := len(self._names) + 1) > 1 else "")
        try:
            result = super().launch(*args, **options)
        finally:
            self.wall_s += perf_counter() - began
        self._names.append(argument_names(*args) if args else {})
        self._progress.mention(SET_UP, "launch()")
        return result

    def element_at(self, launch: int, owner: int, offset: int) -> Element | None:
        """Returns the element with byte *offset* of memory *owner*, under the name that launch number *launch* gives
        its tensor; None where no tensor has it.
        """
        names = self._names[launch] if launch < len(self._names) else {}
        for tensor in self.tensors:
            place = tensor.index_with(owner, offset)
            if place is not None:
                return Element(tensor=names.get(tensor.addresses[0][0], tensor.name), index=place)
        return None

    def argument_of(self, tensor: Tensor) -> str | None:
        """Returns the parameter to which *tensor* was passed in the last launch that had it; None without one."""
        address = tensor.addresses[0][0]
        return next((names[address] for names in reversed(self._names) if address in names), None)

    def write(self, tensor: Tensor, data: npt.NDArray[Any], **options: Any) -> Any:
        """Writes *data* to *tensor* as `Host.write` does, and reports the step."""
        self._progress.mention(SET_UP, f"placing {tensor.name}")
        return super().write(tensor, data, **options)

    def _wait_for(self, call: Any = None) -> None:
        """Simulates calls of streams as `Host` does, and adds the seconds to `wall_s`."""
        if call is not None and call.has_ended:
            return
        began = perf_counter()
        try:
            super()._wait_for(call)
        finally:
            self.wall_s += perf_counter() - began

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
            launch_ps=sum(each.start_ps - each.call_ps for each in self.launches if each.stream is None),
            response_ps=sum(each.response_ps - each.end_ps for each in self.launches if each.stream is None),
        )
