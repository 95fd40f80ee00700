"""Pointers into one of two tensors, element by element, which `tl.where` gives."""

from __future__ import annotations

from typing import Any, TypeAlias

from kb_engine.program import Completion
from kb_triton.language.pointers import Address, Offset
from kb_triton.language.tensor import tensor

AnyAddress: TypeAlias = "Address | ChosenAddress"


class ChosenAddress:
    """Where elements are: at *one* where *chosen*, a tensor of booleans, is true, and at *two* elsewhere.

    A transfer becomes one of each, with masks.
    """

    __slots__ = ("chosen", "one", "two")

    def __init__(self, chosen: tensor, one: AnyAddress, two: AnyAddress) -> None:
        self.chosen = chosen
        self.one = one
        self.two = two

    def broadcast(self, shape: tuple[int, ...]) -> ChosenAddress:
        """The same elements over *shape*."""
        return ChosenAddress(self.chosen, self.one.broadcast(shape), self.two.broadcast(shape))

    def plus(self, offset: Offset, waits: tuple[Completion, ...]) -> ChosenAddress:
        """The elements *offset* elements further."""
        return ChosenAddress(self.chosen, self.one.plus(offset, waits), self.two.plus(offset, waits))

    def masks(self, mask: Any) -> tuple[tensor, tensor]:
        """Where *mask*, a tensor of booleans, takes elements at *one*, and where at *two*."""
        first: tensor = mask & self.chosen
        second: tensor = mask & ~self.chosen
        return first, second
