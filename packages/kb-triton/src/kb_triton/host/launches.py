"""Launches: results of a finished one, the error of one without room, and the outcome of autotuning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_dataexec import MemoryStore, OpLog
from kb_engine import Host, LaunchResult, Tensor
from kb_engine.program import TcmFullError
from kb_messages import DType, KernelError, MemorySpace, Role, split_address
from kb_triton.host.arrays import arrays_in, with_pointers
from kb_triton.host.storages import Storage, Storages, read_only
from kb_triton.language import Machine

Grid: TypeAlias = tuple[int, ...]


class OutOfResources(KernelError):
    """A kernel that needs more TCM than a PE has. Autotuning skips such a configuration.

    `required` is the bytes that were asked for, `limit` those that were free, and `name` the memory.
    """

    name = "TCM"
    required = 0
    limit = 0

    @classmethod
    def of(cls, error: TcmFullError) -> OutOfResources:
        """The error under Triton's name."""
        found = cls(error.where, error.got, error.needs, error.fix)
        found.required, found.limit = error.required, error.limit
        return found


class Launched(NamedTuple):
    """A finished launch of *kernel*, a function of *file*, whose data are computed.

    *arguments* are those of the kernel as reports show them. *timing_s* and *data_s* are seconds of this machine: of
    pass 1 with the log, and of pass 2.
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
    timing_s: float
    data_s: float


def write_back(log: OpLog, after: MemoryStore, storages: list[Storage]) -> list[Storage]:
    """Copy what stores and atomics of *log* wrote, as *after* has it, into the arrays of this process.

    Returns the storages that were written. Raises KernelError for bytes of a read-only array.
    """
    written = list[Storage]()
    operands = log.operands
    is_written = (operands["role"] == Role.DST) | (operands["role"] == Role.OUT)  # an atomic has an OUT
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
        storage.look()[low - base : high - base] = found[0]
        written.append(storage)
    return written


def _line_of(log: OpLog, op_id: int) -> str:
    at = int(np.flatnonzero(log.ops["op_id"] == op_id)[0])
    return log.strings[int(log.ops["line"][at])]


class TunedConfig(NamedTuple):
    """A configuration and the picoseconds of a launch with it; None where *why_not* says what was in the way."""

    config: str
    ps: int | None
    why_not: str


class Tuning(NamedTuple):
    """The configurations that were tried for *kernel* with the arguments *key*, in their order, and the best one."""

    kernel: str
    key: Mapping[str, Any]
    tried: list[TunedConfig]
    best: str


class LaunchedKernel(Protocol):
    """The function that each program of a launch calls with its machine."""

    @property
    def __name__(self) -> str:
        """That of the author's function."""

    def __call__(self, machine: Machine) -> None:
        """Run the program of *machine*."""


class LaunchedFunction(Protocol):
    """What a launch runs: a `JITFunction`."""

    fn: Callable[..., Any]
    __name__: str

    def entry(self, arguments: Mapping[str, Any]) -> LaunchedKernel:
        """The function that a program calls with its machine; *arguments* has pointers in place of arrays."""


class PreparedLaunch:
    """A launch on *host* before it runs, whose arrays are on the chip. With *transfers*, their way takes time."""

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
        self._schedule = schedule
        self._transfers = transfers
        self._tensors: dict[int, Tensor] = {}
        self.storages = Storages(self._place)
        self.storages.add_all(list(arrays_in(arguments)))
        passed = {name: with_pointers(each, name, self.storages) for name, each in arguments.items()}
        self._kernel = function.entry(passed)

    def run(self) -> LaunchResult:
        """Run the programs."""
        front_end = partial(Machine, storage_at=self.storages.at)
        try:
            return self.host.launch(
                self._kernel,
                front_end=front_end,
                grid=self._grid,
                pes="all",
                schedule=self._schedule,  # type: ignore[arg-type]
            )
        except TcmFullError as error:
            raise OutOfResources.of(error) from None

    def charge_results(self, written: Sequence[Storage]) -> None:
        """Let the time pass that the bytes of *written* take to the host."""
        for each in written:
            self.host.read(self._tensors[each.chip_address])

    def _place(self, name: str, data: npt.NDArray[np.uint8]) -> int:
        """Put *data* into the HBM of the chip: the cubes take storages in turn. Returns the address."""
        host = self.host
        memory = host.engine.memory
        number, cubes = len(self._tensors), _n_cubes(host)
        where: Any = {"cube": number % cubes} if cubes else {"slices": [number % host.num_slices]}
        if host.engine.topology.address_map.default_memory is not None:
            where = {}
        tensor = host.empty(name, data.shape, DType.U8, **where)
        address = tensor.addresses[0][0]
        self._tensors[address] = tensor
        if self._transfers and memory.initial is None:
            host.write(tensor, data)
            return address
        memory.store.write(*split_address(address), data)
        if memory.initial is not None:  # a kernel has loaded the address of an array, which was there from the start
            memory.initial.write(*split_address(address), data)
        return address


def _n_cubes(host: Host) -> int:
    """Cubes over whose slices a tensor may lie; 0 for a chip that interleaves no HBM, whose slices take turns."""
    regions = host.engine.topology.address_map.interleaved.values()
    return len({each.memory for each in regions if not each.is_named})
