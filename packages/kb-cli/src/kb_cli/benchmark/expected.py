"""The expected value of one output: its elements, or the factors of which it is the product."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy.typing as npt

from kb_dataexec import MemoryStore
from kb_dataexec.verify import Rounding
from kb_engine import Tensor, read_tensor
from kb_messages import split_address


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


class OpExpected(NamedTuple):
    """The result of an op of a workload: its float64 reference, and the allowed absolute error, of its shape."""

    reference: npt.NDArray[Any]
    allowed: npt.NDArray[Any]


class OpProduct(NamedTuple):
    """The result of an op of a workload that is the product of A and B: the factors, and the seed of the sample."""

    a: npt.NDArray[Any]
    b: npt.NDArray[Any]
    seed: int


AnyOpExpected = OpExpected | OpProduct
AnyExpected = Expected | ExpectedProduct
