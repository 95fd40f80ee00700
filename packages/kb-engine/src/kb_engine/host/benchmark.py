"""Benchmark: the class that a user's file derives from, so that `kb run` can time, compute and check a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_engine.host.host import Host
from kb_engine.program.values.tensors import Tensor

ParamsT = TypeVar("ParamsT", bound=Struct)
Arrays = dict[str, npt.NDArray[Any]]


class Benchmark(ABC, Generic[ParamsT]):
    """The base of benchmarks. A file holds one subclass, with its typed `Params` and the methods filled in.

    Reports show `name`, by default the name of the file.
    """

    Params: ClassVar[type[Struct]]
    name: ClassVar[str] = ""

    def footprint(self, p: ParamsT) -> int:
        """The least bytes of device memory for the tensors; 0, the default, for no estimate.

        `kb run` calls this before it makes the inputs, and refuses sizes that no memory could hold.
        """
        return 0

    @abstractmethod
    def inputs(self, p: ParamsT, rng: np.random.Generator) -> Arrays:
        """Makes the input arrays, by name. Random values come from *rng* alone, so that a seed repeats them."""

    @abstractmethod
    def launch(self, host: Host, p: ParamsT, tensors: Arrays) -> dict[str, Tensor]:
        """Puts the inputs into device memory, launches the kernel, and returns the output tensors by name."""

    @abstractmethod
    def reference(self, p: ParamsT, inputs: Arrays) -> Arrays:
        """The expected outputs by name, computed with numpy in float64, integers exactly."""

    @abstractmethod
    def flops(self, p: ParamsT) -> int:
        """The number of arithmetic operations of the algorithm. A multiply-add counts as two."""

    def products(self, p: ParamsT, inputs: Arrays) -> dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """The factors A and B of each output that is the product A @ B and nothing more, (M, K) and (K, N).

        `kb run` may check such outputs by sample, within `gemm_tolerance`, and then calls neither `reference` nor
        `tolerance`. The default is no products.
        """
        return {}

    def tolerance(self, p: ParamsT, inputs: Arrays, expected: Arrays) -> Arrays:
        """The allowed absolute error of each element, by output. A missing output gets the default of its dtype."""
        return {}
