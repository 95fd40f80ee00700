"""Values in TCM with their axes in another order: `tl.store` moves them as they are, and math lays them out first."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_engine.program.values.laid_out import LaidOutOperators
from kb_messages import DType


class Permuted(LaidOutOperators):
    """*of* with its axes in *order*: axis i is axis `order[i]` of *of*."""

    __slots__ = ("of", "order")

    def __init__(self, of: Handle, order: tuple[int, ...]) -> None:
        self.of = of
        self.order = order

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension."""
        return tuple(self.of.shape[axis] for axis in self.order)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.of.dtype

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only. Raises KernelError while they are pending."""
        return self.of.data.transpose(self.order)

    @property
    def inverse(self) -> tuple[int, ...]:
        """The order in which the axes of this are those of `of`."""
        return tuple(self.order.index(axis) for axis in range(len(self.order)))

    def laid_out(self) -> LoadedTensor:
        """The value as one of its own, with its elements in their order."""
        return self.of.reordered(self.order)
