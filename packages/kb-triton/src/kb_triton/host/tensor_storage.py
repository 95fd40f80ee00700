"""TensorStorage: a tensor of a benchmark's host, for kernels."""

from __future__ import annotations

from msgspec.structs import replace

from kb_engine import Tensor
from kb_messages import DType, KernelError


class TensorStorage:
    """The bytes of *tensor*, which is on the chip already. Their addresses are those of the chip.

    Raises KernelError for a tensor that is cut into blocks, copied or mapped.
    """

    def __init__(self, tensor: Tensor) -> None:
        if len(tensor.addresses) > 1 or len(tensor.addresses[0]) > 1 or tensor.copies or tensor.virtual:
            fix = "leave out blocks=, slices=, shard= and host.map"
            raise KernelError(f"tensor {tensor.name}", "one that is cut, copied or mapped", "a flat tensor", fix)
        self.name = tensor.name
        self.address = tensor.addresses[0][0]
        self.nbytes = tensor.rows * tensor.cols * tensor.dtype.nbytes
        self._tensor = tensor

    def view(self, dtype: DType) -> Tensor:
        """The tensor as elements of *dtype*, in one dimension."""
        count = self.nbytes // dtype.nbytes
        return replace(self._tensor, shape=(count,), dtype=dtype, row_bounds=(0, 1), col_bounds=(0, count))
