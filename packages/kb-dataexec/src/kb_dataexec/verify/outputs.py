"""Outputs after a log was executed: reads an output, compares it, and names the op that wrote its worst element."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kb_dataexec.analysis.provenance import Origin, explained, origin
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import LogParts
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.verify.compare import Comparison, compare
from kb_dataexec.verify.product_sample import check_product
from kb_dataexec.verify.sample_record import ProductSample
from kb_messages import DType


class StoredArray(Protocol):
    """An array that lies in memory, in one piece or in several."""

    def read(self, memory: MemoryStore) -> Array:
        """Reads the values. Raises StoreError for bytes that are not initialised."""

    def byte_of(self, index: tuple[int, ...]) -> tuple[int, int]:
        """Returns (owner, offset) of the first byte of the element at *index*."""


class OutputVerdict(NamedTuple):
    """A comparison, and for a wrong output the origin of its worst element."""

    comparison: Comparison
    origin: Origin | None


def read_output(log: LogParts, memory: MemoryStore, output: StoredArray) -> Array:
    """Reads *output* from *memory*, the memory after *log*.

    Raises StoreError for a byte that is not initialised. The error names the ops of *log* that wrote and released it.
    """
    try:
        return output.read(memory)
    except StoreError as error:
        raise explained(log, error) from error


def compare_output(
    log: LogParts, name: str, output: StoredArray, got: Array, expected: Array, allowed: Array | float
) -> OutputVerdict:
    """Compares *got*, the values of *output*, with *expected* within *allowed*. Names the origin of a wrong element."""
    return _with_origin(log, output, compare(name, got, expected, allowed))


def sample_output(
    log: LogParts, name: str, output: StoredArray, got: Array, factors: tuple[Array, Array], dtype: DType, seed: int
) -> tuple[OutputVerdict, ProductSample]:
    """Compares *got*, the values of *output* in *dtype*, with the product of *factors*, by sample.

    Names the origin of a wrong element, and returns a record of the sample.
    """
    comparison, sample = check_product(name, got, *factors, dtype, seed)
    return _with_origin(log, output, comparison), sample


def _with_origin(log: LogParts, output: StoredArray, comparison: Comparison) -> OutputVerdict:
    return OutputVerdict(comparison, None if comparison.ok else origin(log, *output.byte_of(comparison.worst)))
