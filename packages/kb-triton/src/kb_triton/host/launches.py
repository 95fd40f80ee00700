"""Launches: one that is ready to run, the results of a finished one, the error where the TCM is full, and tunings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from kb_dataexec import MemoryStore, OpLog
from kb_engine import Host, LaunchResult, Tensor
from kb_engine.program import TcmFullError
from kb_messages import DType, KernelError, MemorySpace, Role, split_address
from kb_triton.host.argument_places import ArgumentPlaces
from kb_triton.host.arrays import arrays_in, with_pointers
from kb_triton.host.storages import Storage, Storages, read_only
from kb_triton.language import Machine

Grid: TypeAlias = tuple[int, ...]


class OutOfResources(KernelError):
    """A kernel needs more TCM than a PE has. Autotuning skips such a configuration. The name is Triton's.

    `required` is the number of bytes that the kernel asked for, `limit` the free bytes, and `name` the memory.
    """

    name = "TCM"
    required = 0
    limit = 0

    @classmethod
    def of(cls, error: TcmFullError) -> OutOfResources:
        """Returns *error* as an error of this class."""
        found = cls(error.where, error.got, error.needs, error.fix)
        found.required, found.limit = error.required, error.limit
        return found


class Launched(NamedTuple):
    """A finished launch of *kernel*, a function of *file*, whose data are computed.

    *arguments* has the kernel's arguments as reports show them. *initial* and *after* are the memories of the chip
    before and after the launch, and *places* has the places of the arguments on the chip. *timing_s* and *data_s* are
    seconds of this machine, for pass 1 with the log and for pass 2.
    """

    kernel: str
    file: Path
    grid: tuple[int, ...]
    arguments: Mapping[str, object]
    host: Host
    result: LaunchResult
    log: OpLog
    initial: MemoryStore
    after: MemoryStore
    places: ArgumentPlaces
    timing_s: float
    data_s: float

    def element_at(self, owner: int, offset: int) -> tuple[str, tuple[int, ...]] | None:
        """Returns the argument and the index of the element with a byte of memory *owner*; None for another byte."""
        return self.places.element_at(owner, offset)


def write_back(log: OpLog, after: MemoryStore, storages: list[Storage]) -> list[Storage]:
    """Copies the bytes that stores and atomics of *log* wrote from *after* into the arrays of this process.

    Returns the storages that were written. Raises KernelError for bytes of a read-only array.
    """
    written = list[Storage]()
    operands = log.operands
    # A store has a DST, and an atomic an OUT.
    is_written = (operands["role"] == Role.DST) | (operands["role"] == Role.OUT)
    writes = operands[is_written & (operands["space"] == MemorySpace.HBM.code)]
    first = writes["offset"].astype(np.int64)
    last = first + (writes["rows"].astype(np.int64) - 1) * writes["stride"] + writes["row_nbytes"]
    for storage in storages:
        owner, base = split_address(storage.chip_address)
        mine = (writes["owner"] == owner) & (first >= base) & (first < base + storage.nbytes)
        if not mine.any():
            continue
        if not storage.is_writeable:
            raise read_only(storage, _line_of(log, int(writes["op_id"][mine][0])))
        low, high = int(first[mine].min()), int(last[mine].max())
        found = after.read(owner, low, 1, high - low, high - low, DType.U8)
        storage.as_bytes()[low - base : high - base] = found[0]
        written.append(storage)
    return written


def _line_of(log: OpLog, op_id: int) -> str:
    at = int(np.flatnonzero(log.ops["op_id"] == op_id)[0])
    return log.strings[int(log.ops["line"][at])]


def latency_ps(result: LaunchResult) -> int:
    """Returns the picoseconds from the start of the first program to the end of the last one.

    This is the time of a launch in every report. What comes before, the call of the host and the start-up of the PEs,
    and the way of the answers do not count.
    """
    return result.end_ps - result.start_ps


class TunedConfig(NamedTuple):
    """A configuration and the picoseconds of a launch with it; *ps* is None where the launch failed with *why_not*.

    `same_as` is an earlier configuration whose launch is equal and has this time; "" for a trial of its own.
    """

    config: str
    ps: int | None
    why_not: str
    same_as: str = ""


class Tuning(NamedTuple):
    """The configurations that an autotuner tried for *kernel* with the arguments *key*, in order, and the best one.

    `idle` are the options and constants in which configurations differ whose launches are equal.
    """

    kernel: str
    key: Mapping[str, Any]
    tried: list[TunedConfig]
    best: str
    idle: tuple[str, ...] = ()


class LaunchedKernel(Protocol):
    """The function that each program of a launch calls with its machine."""

    @property
    def __name__(self) -> str:
        """The name of the author's function."""

    def __call__(self, machine: Machine) -> None:
        """Runs the program of *machine*."""


class LaunchedFunction(Protocol):
    """A kernel that can be launched: a `JITFunction`."""

    fn: Callable[..., Any]
    __name__: str

    def entry(self, arguments: Mapping[str, Any]) -> LaunchedKernel:
        """Returns the function that each program calls. *arguments* has pointers in place of arrays."""


class PreparedLaunch:
    """A launch on *host* that is ready to run: its arrays are on the chip. *transfers* charges their transfers."""

    def __init__(
        self,
        function: LaunchedFunction,
        grid: Grid,
        arguments: Mapping[str, Any],
        schedule: str,
        transfers: bool,
        host: Host,
    ) -> None:
        self.host = host
        self._grid = grid
        self._schedule = cast(Literal["dynamic", "static"], schedule)  # the host checks the word
        self._transfers = transfers
        self._tensors: dict[int, Tensor] = {}
        self.storages = Storages(self._place)
        arrays = list(arrays_in(arguments))
        self.storages.add_all(arrays)
        self.places = ArgumentPlaces(arrays, self.storages)
        passed = {name: with_pointers(each, name, self.storages) for name, each in arguments.items()}
        self._kernel = function.entry(passed)

    def run(self) -> LaunchResult:
        """Runs the programs.

        Raises OutOfResources when the TCM of a PE is full, and the errors of `Host.launch`.
        """
        front_end = partial(Machine, storage_at=self.storages.at)
        try:
            return self.host.launch(
                self._kernel,
                front_end=front_end,
                grid=self._grid,
                targets=self.host.default_targets(self._tensors.values()),
                schedule=self._schedule,
            )
        except TcmFullError as error:
            raise OutOfResources.of(error) from None

    def charge_results(self, written: Sequence[Storage]) -> None:
        """Charges the transfer of the bytes of *written* to the host."""
        for each in written:
            self.host.read(self._tensors[each.chip_address])

    def _place(self, name: str, data: npt.NDArray[np.uint8]) -> int:
        """Puts *data* into the HBM of the chip, where a tensor without a place lies, and returns the address."""
        host = self.host
        memory = host.engine.memory
        tensor = host.empty(name, data.shape, DType.U8)
        address = tensor.addresses[0][0]
        self._tensors[address] = tensor
        if self._transfers and memory.initial is None:
            host.write(tensor, data)
            return address
        memory.store.write(*split_address(address), data)
        # A kernel has loaded the address of an array while the launch runs. The array was there before the launch.
        if memory.initial is not None:
            memory.initial.write(*split_address(address), data)
        return address
