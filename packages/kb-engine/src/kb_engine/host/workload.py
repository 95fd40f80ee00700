"""Workload: a benchmark of many ops, such as a model. Each op reads what ops before it wrote, and is verified alone.

Design: docs/design/models.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_dataexec import MemoryStore
from kb_engine.host.benchmark import Arrays, Benchmark, ParamsT
from kb_engine.host.host import Host
from kb_engine.program.values.tensors import Tensor
from kb_messages import BenchmarkError, DType
from kb_topology import Topology


class WorkloadOp(Struct, frozen=True, kw_only=True):
    """One op of a workload as it ran: launches `first_launch` to `end_launch` - 1 of the run are its own.

    A name may begin with the part of the workload that has the op and a dot: `block0.down`. `kind` groups ops of a
    report. `flops` are the operations of the algorithm, a multiply-add as two, and `nbytes` the bytes of its operands
    and results, each once. `floor_nbytes` are the bytes of weights and caches that no order of the work can keep from
    passing through HBM, each once. `repeats` is how often the whole model has the op, where the run has it once.
    """

    name: str
    kind: str
    flops: int
    nbytes: int
    first_launch: int
    end_launch: int
    repeats: int = 1
    floor_nbytes: int = 0

    @property
    def part(self) -> str:
        """The part of the workload that has the op: the name up to its first dot."""
        return self.name.partition(".")[0]


class WorkloadStep(Struct, frozen=True, kw_only=True):
    """The work of the whole model: `items` of `unit`, such as 8 `tokens`.

    `phase` is `prefill`, which ends with the first token of each sequence, `decode`, which gives each sequence one more
    token, or `pass`, any other pass through a model.
    """

    phase: Literal["prefill", "decode", "pass"]
    items: int
    unit: str = "tokens"


class PlannedValue(Struct, frozen=True, kw_only=True):
    """A value that an op reads or writes: its name, shape and dtype, and in words how it is split over the chip."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    layout: str


class PlannedOp(Struct, frozen=True, kw_only=True):
    """One op of a workload before it runs, with the values that it reads and writes; the rest as in `WorkloadOp`."""

    name: str
    kind: str
    flops: int
    nbytes: int
    repeats: int
    reads: tuple[PlannedValue, ...]
    writes: tuple[PlannedValue, ...]


class OutputPart(Struct, frozen=True):
    """A block of a result: the first index and the index behind the last of each dimension, and its tensor.

    Parts with equal bounds are copies.
    """

    bounds: tuple[tuple[int, int], ...]
    tensor: Tensor


class WorkloadOutput(ABC):
    """One result of one op, which pass 2 computed: where it lies, and what it should be.

    `flops` are the operations of the op, from which the choice of a check in full or by sample follows.
    """

    name: str
    flops: int
    shape: tuple[int, ...]
    dtype: DType

    @abstractmethod
    def read(self, memory: MemoryStore) -> npt.NDArray[Any]:
        """The values in *memory*. Raises StoreError for bytes that nobody wrote."""

    @abstractmethod
    def byte_of(self, index: tuple[int, ...]) -> tuple[int, int]:
        """(owner, offset) of the first byte of the element at *index*."""

    @property
    def parts(self) -> list[OutputPart]:
        """The blocks in which the result lies, which a run folder keeps for `kb verify`. By default [], for none."""
        return []

    @abstractmethod
    def expected(self, memory: MemoryStore) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The reference in float64, from what the op read in *memory*, and the allowed absolute error: two arrays of
        `shape`."""

    def factors(self, memory: MemoryStore) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """The factors A and B of a result that is the product A @ B and nothing more; None for any other result."""
        return None


class Workload(Benchmark[ParamsT], Generic[ParamsT]):
    """The base of workloads. `kb run` calls `prepare` first, then `launch`, and verifies each of `outputs` alone.

    `default_topology` is the bundled chip that `kb run` takes where the user names none.

    The ops are chained: an op reads what ops before it wrote, so no op may overwrite what another one reads or wrote.
    """

    default_topology: ClassVar[str] = "one_cube"

    @abstractmethod
    def prepare(self, p: ParamsT, topology: Topology, seed: int) -> None:
        """Makes the ops for *topology*. Raises BenchmarkError for a workload that does not fit the chip."""

    @abstractmethod
    def run(self, host: Host, p: ParamsT) -> None:
        """Places the tensors, and launches op after op."""

    @property
    @abstractmethod
    def ops(self) -> list[WorkloadOp]:
        """The ops that ran, in order."""

    @property
    def planned(self) -> list[PlannedOp]:
        """The ops that `run` will launch, in order, from `prepare` on.

        Raises BenchmarkError for a workload that cannot tell.
        """
        raise BenchmarkError(self.name or "a workload", "no ops before the run", "a run", "leave out --list")

    @abstractmethod
    def outputs(self) -> Iterator[WorkloadOutput]:
        """The results of all ops, in order."""

    def step(self, p: ParamsT) -> WorkloadStep | None:
        """The work of the whole model with *p*. None, the default, for a workload of which no time is asked."""
        return None

    def inputs(self, p: ParamsT, rng: np.random.Generator) -> Arrays:
        """Returns {}: a workload makes the content of its tensors when it places them."""
        return {}

    def launch(self, host: Host, p: ParamsT, tensors: Arrays) -> dict[str, Tensor]:
        """Runs the workload. Returns {}, because `outputs` has the results."""
        self.run(host, p)
        return {}

    def reference(self, p: ParamsT, inputs: Arrays) -> Arrays:
        """Returns {}, because each of `outputs` has its own reference."""
        return {}
