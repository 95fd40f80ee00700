"""TensorDescriptor: a tensor of the host with the blocks that kernels load from it and store to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kb_messages import KernelError


@dataclass
class TensorDescriptor:
    """The elements of *base* at *strides*, of *shape*, in blocks of *block_shape*. A load beyond the shape is padded.

    Raises KernelError when the lists are not of one length of 1 to 5, or the last stride is not 1.
    """

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not 1 <= rank <= 5 or len(self.strides) != rank or len(self.block_shape) != rank:
            got = f"shape {list(self.shape)}, strides {list(self.strides)} and blocks {list(self.block_shape)}"
            raise KernelError("TensorDescriptor", got, "as many of each, 1 to 5")
        if self.strides[-1] != 1:
            raise KernelError("TensorDescriptor", f"strides {list(self.strides)}", "a last stride of 1")

    @staticmethod
    def from_tensor(tensor: Any, block_shape: list[int], padding: str = "zero") -> TensorDescriptor:
        """The descriptor of a whole array, in its own shape and strides."""
        if callable(getattr(tensor, "stride", None)):
            strides = list(tensor.stride())
        else:
            strides = [each // tensor.itemsize for each in tensor.strides]
        return TensorDescriptor(tensor, list(tensor.shape), strides, list(block_shape), padding)

    def with_base(self, base: Any) -> TensorDescriptor:
        """The same blocks of another *base*."""
        return replace(self, base=base)
