"""What an autotuner found out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class TunedConfig(NamedTuple):
    """A configuration and the picoseconds of a launch with it; None where *why_not* says what was in the way."""

    config: str
    ps: int | None
    why_not: str


class Tuning(NamedTuple):
    """The configurations that were tried for *kernel* with the arguments *key*, in their order, and the best one."""

    kernel: str
    key: Mapping[str, Any]
    tried: list[TunedConfig]
    best: str
