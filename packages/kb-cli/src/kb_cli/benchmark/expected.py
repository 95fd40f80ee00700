"""The expected value of one output: its elements, or the factors of which it is the product."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_dataexec import MemoryStore
from kb_dataexec.verify import Rounding
from kb_engine import OutputPart, Tensor, read_tensor
from kb_messages import DType, KernelError, split_address


class OutputTensor(NamedTuple):
    """One output on the chip."""

    tensor: Tensor

    def read(self, memory: MemoryStore) -> npt.NDArray[Any]:
        """Returns the output's values in *memory*. Raises StoreError when bytes are not initialised."""
        return read_tensor(memory, self.tensor)

    def byte_of(self, index: tuple[int, ...]) -> tuple[int, int]:
        """Returns (owner, offset) of the first byte of the element at *index*, which may lie in any block of the
        tensor.
        """
        tensor = self.tensor
        row, col = (0, *index)[-2:]
        i, j = bisect_right(tensor.row_bounds, row) - 1, bisect_right(tensor.col_bounds, col) - 1
        block = tensor.block(i, j)
        address = block.address + (row - tensor.row_bounds[i]) * block.stride
        address += (col - tensor.col_bounds[j]) * tensor.dtype.nbytes
        return split_address(address)


class Expected(NamedTuple):
    """One output: its tensor on the chip, its float64 reference, and the allowed absolute error.

    The allowed error is one number, or an array of the reference's shape. `default_terms` is None when the benchmark
    stated the allowed error. Otherwise the error is the default for sums of that many terms, in the dtype of the
    tensor, or of `rounding` where values behind the output were rounded to a coarser type.
    """

    tensor: Tensor
    reference: npt.NDArray[Any]
    allowed: npt.NDArray[Any]
    default_terms: int | None = None
    rounding: Rounding | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.reference.nbytes + self.allowed.nbytes


class ExpectedProduct(NamedTuple):
    """One output that is a product: its tensor on the chip, the factors A and B, and the seed of the sample."""

    tensor: Tensor
    a: npt.NDArray[Any]
    b: npt.NDArray[Any]
    seed: int

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.a.nbytes + self.b.nbytes


class OutputParts(NamedTuple):
    """The result of an op on the chip, of `shape` and `dtype`, in `parts`. Parts with equal bounds are copies."""

    shape: tuple[int, ...]
    dtype: DType
    parts: tuple[OutputPart, ...]

    def read(self, memory: MemoryStore) -> npt.NDArray[Any]:
        """Returns the values in *memory*. Raises StoreError for bytes that are not initialised, and KernelError for
        copies that differ.
        """
        found: npt.NDArray[Any] | None = None
        seen: set[tuple[tuple[int, int], ...]] = set()
        for number, part in enumerate(self.parts):
            block, place = read_tensor(memory, part.tensor), tuple(slice(*each) for each in part.bounds)
            if found is None:
                found = np.empty(self.shape, block.dtype)
            if part.bounds in seen and found[place].tobytes() != block.tobytes():
                where = f"read of {part.tensor.name}"
                raise KernelError(where, f"other values in part {number} than in its copy", "copies that agree")
            seen.add(part.bounds)
            found[place] = block
        assert found is not None, "a result has parts"
        return found

    def byte_of(self, index: tuple[int, ...]) -> tuple[int, int]:
        """Returns (owner, offset) of the first byte of the element at *index*, in the first part that has it."""
        for part in self.parts:
            if all(start <= at < stop for at, (start, stop) in zip(index, part.bounds, strict=True)):
                inside = tuple(at - start for at, (start, _) in zip(index, part.bounds, strict=True))
                row = int(np.ravel_multi_index(inside[:-1], part.tensor.shape[:-1])) if len(inside) > 1 else 0
                return OutputTensor(part.tensor).byte_of((row, inside[-1]))
        raise KernelError("a result", f"index {index}", "an index of a part")


class OpExpected(NamedTuple):
    """The result of an op of a workload: its float64 reference, the allowed absolute error, and where it lies."""

    reference: npt.NDArray[Any]
    allowed: npt.NDArray[Any]
    stored: OutputParts

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.reference.nbytes + self.allowed.nbytes


class OpProduct(NamedTuple):
    """The result of an op of a workload that is the product of A and B: the factors, the seed of the sample, and where
    it lies.
    """

    a: npt.NDArray[Any]
    b: npt.NDArray[Any]
    seed: int
    stored: OutputParts

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.a.nbytes + self.b.nbytes


AnyOpExpected = OpExpected | OpProduct
AnyExpected = Expected | ExpectedProduct
