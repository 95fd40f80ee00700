"""Storages: the bytes of host arrays, as they lie on the chip."""

from __future__ import annotations

from msgspec.structs import replace

from kb_engine import Tensor
from kb_messages import DType


class HostStorage:
    """The bytes of a host array at *tensor* of the chip, whose elements are bytes. *address* is their address."""

    def __init__(self, name: str, tensor: Tensor, address: int) -> None:
        self.name = name
        self.tensor = tensor
        self.address = address
        self.nbytes = tensor.cols
        self._views: dict[DType, Tensor] = {}

    def view(self, dtype: DType) -> Tensor:
        """As `ChipStorage.view`."""
        found = self._views.get(dtype)
        if found is None:
            n = self.nbytes // dtype.nbytes
            found = self._views[dtype] = replace(self.tensor, dtype=dtype, shape=(n,), col_bounds=(0, n))
        return found
