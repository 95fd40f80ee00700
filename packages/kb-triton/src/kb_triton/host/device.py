"""Device: the simulated chip that runs the launches of a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, read_tensor
from kb_messages import KernelError
from kb_topology import Topology, load_topology
from kb_triton.host.storages import HostStorage
from kb_triton.language import Machine, Pointer
from kb_triton.language.dtypes import of_numpy


class LaunchedFunction(Protocol):
    """What a launch runs: a `JITFunction`."""

    def entry(self, arguments: Mapping[str, Any]) -> Callable[..., None]:
        """The function that a program calls with its machine; *arguments* has pointers in place of arrays."""


class Device:
    """The chip of *topology*. Each launch computes its data before it returns. `elapsed_ps` is the time of all."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.elapsed_ps = 0

    def launch(self, function: LaunchedFunction, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> None:
        """Run *function* over *grid*. numpy arrays among *arguments* reach it as pointers, and get the results."""
        engine = Engine(self.topology, MemoryLogWriter())
        host = Host(engine, Path.cwd())
        arrays = {name: each for name, each in arguments.items() if isinstance(each, np.ndarray)}
        storages = {}
        for name, array in arrays.items():
            if not array.flags.c_contiguous:
                raise KernelError(name, "an array with gaps", "a contiguous array")
            bytes_of = array.reshape(-1).view(np.uint8)
            storages[name] = HostStorage(name, host.tensor(name, bytes_of, "u8"), array.ctypes.data)
        bound = dict(arguments)
        for name, array in arrays.items():
            kind = of_numpy(array.dtype)
            if kind is None:
                raise KernelError(name, f"an array of {array.dtype}", "a type that Triton has")
            bound[name] = Pointer(storages[name], 0, kind)
        result = host.launch(function.entry(bound), front_end=Machine, grid=grid, pes="all")
        self.elapsed_ps += result.response_ps - result.call_ps
        log = engine.close_log()
        assert log is not None
        assert engine.initial_memory is not None
        after = Executor(log, engine.initial_memory).run()  # type: ignore[arg-type]
        for name, array in arrays.items():
            array.reshape(-1).view(np.uint8)[:] = read_tensor(after, storages[name].tensor)


_CURRENT: list[Device] = []
"""The device of the process, once something asked for it."""


def use(device: Device) -> None:
    """Have *device* run the launches from now on."""
    _CURRENT[:] = [device]


def current() -> Device:
    """The device that runs launches: by default the chip of the file that KB_TOPOLOGY names."""
    if not _CURRENT:
        path = os.environ.get("KB_TOPOLOGY")
        if not path:
            raise KernelError("launch", "no chip", "a topology's file in the environment variable KB_TOPOLOGY")
        use(Device(load_topology(Path(path))))
    return _CURRENT[0]
