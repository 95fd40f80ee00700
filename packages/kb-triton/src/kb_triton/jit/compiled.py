"""CompiledKernel: what a launch and a warm-up return. There is no compiled code, so its facts are constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class KernelMetadata(NamedTuple):
    """Facts of compiled code that host code asks for. No PE has warps or shared memory."""

    name: str
    shared: int = 0
    num_warps: int = 4
    num_stages: int = 2
    num_ctas: int = 1
    tmem_size: int = 0


class CompiledKernel:
    """The kernel *name* with the arguments of a launch or warm-up. `kernel[grid](...)` launches it with others."""

    n_regs = n_spills = 0
    n_max_threads = 1024

    def __init__(self, name: str, launch: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.name = name
        chosen = {each: options[each] for each in ("num_warps", "num_stages", "num_ctas") if options.get(each)}
        self.metadata = KernelMetadata(name, **chosen)
        self.asm: dict[str, str] = {}
        self._launch = launch

    @property
    def kernel(self) -> CompiledKernel:
        """Itself."""
        return self

    def _init_handles(self) -> None:
        """Does nothing: there is no code to load."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *arguments, **named: self._launch(*arguments, grid=grid, **named)
