"""Benchmarks: what a user's file defines so that `kb run` can time it, compute it and check it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_engine.host.host import Host
from kb_engine.program.tensors import Tensor

ParamsT = TypeVar("ParamsT", bound=Struct)
Arrays = dict[str, npt.NDArray[Any]]


class Benchmark(ABC, Generic[ParamsT]):
    """One benchmark a file. Subclass it, name its typed `Params`, and fill in the methods.

    `name` is what reports call it (default: the file's name).
    """

    Params: ClassVar[type[Struct]]
    name: ClassVar[str] = ""

    @abstractmethod
    def inputs(self, p: ParamsT, rng: np.random.Generator) -> Arrays:
        """The input arrays by name, drawn from *rng* alone so that a seed repeats them."""

    @abstractmethod
    def launch(self, host: Host, p: ParamsT, tensors: Arrays) -> dict[str, Tensor]:
        """Put the inputs into device memory, launch the kernel, and return the output tensors by name."""

    @abstractmethod
    def reference(self, p: ParamsT, inputs: Arrays) -> Arrays:
        """The outputs, computed by numpy in float64 (integers exactly)."""

    @abstractmethod
    def flops(self, p: ParamsT) -> int:
        """Floating-point (or integer) operations of the algorithm, a multiply-add counting two."""

    def tolerance(self, p: ParamsT, inputs: Arrays, expected: Arrays) -> Arrays:
        """The allowed absolute error by output, elementwise. An output left out gets its dtype's default."""
        return {}
