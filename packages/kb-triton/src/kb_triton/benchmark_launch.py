"""`kb_triton.launch`: launches a Triton kernel from a Benchmark's `launch`, on tensors of its host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb_engine import Host, LaunchResult
from kb_messages import KernelError
from kb_triton.host import Device, LaunchedFunction, options_of, using


def launch(
    host: Host, kernel: Any, grid: Any, *arguments: Any, schedule: str = "dynamic", **named: Any
) -> LaunchResult:
    """Launches *kernel*, a function under `@triton.jit`, over *grid* with *arguments* and *named*.

    Flat tensors of *host* (from `host.tensor` and `host.empty` without further arguments) reach the kernel as pointers.
    *grid* is a tuple, or a function of all arguments by name. A tuned kernel takes its first configuration. *schedule*
    is the parameter of `Host.launch`. Raises the errors of `Host.launch`, and KernelError for a grid without programs.
    """
    device = _HostDevice(host, schedule)
    with using(device):
        kernel[grid](*arguments, **named)
    if not device.results:
        raise KernelError(
            f"launch of {getattr(kernel, '__name__', 'a kernel')}", "a grid without programs", "at least one program"
        )
    return device.results[0]


class _HostDevice(Device):
    """A device whose launches run on *host*, without pass 2. `results` has the results of the launches."""

    def __init__(self, host: Host, schedule: str) -> None:
        super().__init__(host.engine.topology, schedule=schedule, autotune=1, lenient=options_of().lenient)
        self.results: list[LaunchResult] = []
        self._host = host

    def launch(self, function: LaunchedFunction, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> None:
        """Runs pass 1 of a launch on the host. The tensors are on the chip already."""
        self.results.append(self.run_on(self._host, function, grid, arguments))
