"""Config: one choice of a tuned kernel's constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Config:
    """Values of constants, by name, that a tuned kernel may be launched with.

    `num_warps`, `num_ctas`, `maxnreg` and `ir_override` do nothing here, and `num_stages` neither: how many loads run
    ahead follows from the TCM. *pre_hook* is called with all arguments by name before each launch with this choice.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], None] | None = None,
        ir_override: str | None = None,
    ) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """The constants and the options, by name, of a launch with this choice."""
        options = {name: getattr(self, name) for name in ("num_warps", "num_ctas", "num_stages", "maxnreg")}
        return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())

    def __repr__(self) -> str:
        return f"Config({self})"

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and str(self) == str(other) and self.pre_hook is other.pre_hook
