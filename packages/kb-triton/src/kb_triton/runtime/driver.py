"""Answers to host code that asks for the driver of a GPU or for settings of Triton's compiler (`triton.knobs`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from kb_triton.host import current
from kb_triton.runtime.testing import do_bench


class GPUTarget(NamedTuple):
    """What kernels are made for. *backend* is `kb`, or what host code was told to find; *arch* is the chip's name."""

    backend: str
    arch: Any
    warp_size: int = 32


class DriverUtilities:
    """The facts of the chip under the names that host code knows from a GPU."""

    def get_device_properties(self, device: Any = 0) -> dict[str, int]:
        """PEs as multiprocessors, the TCM that a kernel has of a PE as shared memory, registers of 4 bytes."""
        return current().properties


class ChipDriver:
    """The active driver. There is one device, number 0, and its arrays are in the memory of this process."""

    def __init__(self) -> None:
        self.utils = DriverUtilities()
        self.backend = "kb"

    def get_current_target(self) -> GPUTarget:
        """The chip."""
        arch: Any = 90 if self.backend == "cuda" else current().topology.name
        return GPUTarget(self.backend, arch)

    def get_current_device(self) -> int:
        """0."""
        return 0

    def set_current_device(self, device: Any) -> None:
        """Does nothing: there is one device."""

    def get_current_stream(self, device: Any = 0) -> int:
        """0."""
        return 0

    def get_active_torch_device(self) -> Any:
        """torch's CPU. Without torch, the text `cpu`."""
        torch = sys.modules.get("torch")
        return "cpu" if torch is None else torch.device("cpu")

    def get_device_capability(self, device: Any = 0) -> tuple[int, int]:
        """(9, 0)."""
        return 9, 0

    def get_benchmarker(self) -> Any:
        """`triton.testing.do_bench`."""
        return do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        """None: there is no cache."""

    def clear_cache(self, cache: Any) -> None:
        """Does nothing."""


class DriverConfig:
    """The drivers that there are: one, which is active and the default."""

    def __init__(self) -> None:
        self.active = self.default = ChipDriver()

    def set_active(self, driver: Any) -> None:
        """Does nothing: the chip's driver stays."""

    def reset_active(self) -> None:
        """Does nothing."""


DRIVER = DriverConfig()


_GROUPS: Final = (
    "amd", "autotuning", "build", "cache", "compilation", "language", "nvidia", "proton", "redis", "runtime",
)  # fmt: skip


class Knobs:
    """A group of settings. Each may be set and read back, and does nothing; one that nobody has set is None."""

    @staticmethod
    def groups() -> dict[str, Knobs]:
        """A group for each of Triton's, by name."""
        return {name: Knobs() for name in _GROUPS}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """After the block, the settings are what they were before it."""
        before = dict(vars(self))
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)
