"""Op: a step of a model. It reads values, launches kernels that write other values, and can be checked alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

from kb_engine import Host, default_tolerance
from kb_models.layout import Tensors, Value
from kb_models.layout.value import Array

Read: TypeAlias = Callable[[Value], Array]
"""Returns the whole array of a value, in its dtype."""


class Op(ABC):
    """One op: its `name`, unique in a model, its `kind`, the values that it reads, and the values that it writes.

    `flops` are the operations of the algorithm, a multiply-add as two. `terms` is the length of the longest sum of f32
    behind an output, from which the default tolerance follows. `repeats` is how often the whole model has the op. An op
    with `looks_at_values` has kernels that look at computed values, so its run needs all data. `scratch` values are
    placed with the others; kernels of the op alone write and read them, and no reference looks at them.
    """

    kind: str
    flops: int
    terms: int = 1
    repeats: int = 1
    looks_at_values: bool = False
    scratch: tuple[Value, ...] = ()

    def __init__(self, name: str, reads: tuple[Value, ...], writes: tuple[Value, ...]) -> None:
        self.name = name
        self.reads = reads
        self.writes = writes

    def stands_for(self, repeats: int) -> None:
        """Notes that the whole model has the op *repeats* times."""
        self.repeats = repeats

    @property
    def nbytes(self) -> int:
        """The bytes of all values that the op reads and writes, each once."""
        return sum(value.nbytes for value in dict.fromkeys((*self.reads, *self.writes)))

    @property
    def floor_nbytes(self) -> int:
        """The bytes of the weights, caches and tables that the op reads, each once.

        An op that reads a part of one of them alone says how much.
        """
        return sum(value.nbytes for value in dict.fromkeys(self.reads) if value.purpose != "activation")

    @abstractmethod
    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches the kernels of the op. All values are placed: `tensors[value]` has the parts of each."""

    @abstractmethod
    def reference(self, read: Read) -> dict[str, Array]:
        """The written values by name in float64 (integers exactly), from the actual content of what the op reads."""

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """The allowed absolute error of each written value, by name: arrays of their shapes."""
        dtypes = {value.name: value.dtype for value in self.writes}
        return {name: default_tolerance(array, dtypes[name], self.terms) for name, array in expected.items()}

    def factors(self, read: Read) -> tuple[Array, Array] | None:
        """The factors A and B of an op whose only result is A @ B; None, the default, for any other op."""
        return None
