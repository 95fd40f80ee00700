"""Answers to host code that asks for the driver of a GPU or for settings of Triton's compiler (`triton.knobs`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from kb_triton.host import current
from kb_triton.language.missing import MissingNameError
from kb_triton.runtime.testing import do_bench


class GPUTarget(NamedTuple):
    """The target of kernels. *backend* is `kb`, or `cuda` under `--pretend cuda`; *arch* is the name of the chip."""

    backend: str
    arch: Any
    warp_size: int = 32


class DriverUtilities:
    """The facts of the chip under the names that host code knows from a GPU."""

    def get_device_properties(self, device: Any = 0) -> dict[str, int]:
        """Returns facts of the chip: PEs as multiprocessors, a kernel's TCM as shared memory, registers of 4 bytes."""
        return current().properties

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        needs = "get_device_properties: there is no code of a GPU to load or to launch"
        raise MissingNameError("triton.runtime.driver", f"driver.active.utils.{name}", needs)


class ChipDriver:
    """The driver of the one device, number 0. The arrays of the device are in the memory of this process."""

    def __init__(self) -> None:
        self.utils = DriverUtilities()
        self.backend = "kb"

    def get_current_target(self) -> GPUTarget:
        """Returns the target; under `--pretend cuda` its *arch* is 90."""
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
        """Returns torch's CPU device; without an imported torch, the text `cpu`."""
        torch = sys.modules.get("torch")
        return "cpu" if torch is None else torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Returns `torch.cuda`, which `--pretend cuda` makes answer for the chip. torch has to be imported."""
        return sys.modules["torch"].cuda

    def get_device_capability(self, device: Any = 0) -> tuple[int, int]:
        """Returns (9, 0), the capability that `--pretend cuda` answers with."""
        return 9, 0

    def get_benchmarker(self) -> Any:
        """Returns `triton.testing.do_bench`."""
        return do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        """Returns None: there is no cache to fill."""

    def clear_cache(self, cache: Any) -> None:
        """Does nothing."""


class DriverConfig:
    """`triton.runtime.driver`: its one driver is the active one and the default."""

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
    """A group of settings. A setting may be set and read back, and does nothing; a setting that was not set is None."""

    @staticmethod
    def groups() -> dict[str, Knobs]:
        """Returns a new group for each group of Triton's, by name."""
        return {name: Knobs() for name in _GROUPS}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Restores the settings at the end of the block."""
        before = dict(vars(self))
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)
