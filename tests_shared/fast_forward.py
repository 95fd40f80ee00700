"""The means of speed of an engine, as tests look at them; each is None where the engine has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kb_engine import Engine


def isolated_of(engine: Engine) -> Any:
    """The isolated commands of *engine*."""
    return getattr(engine.fast_forward, "isolated", None)


def tiles_of(engine: Engine) -> Any:
    """What skips tiles of commands of *engine*."""
    return getattr(engine.fast_forward, "tiles", None)


def skipper_of(engine: Engine) -> Any:
    """What skipped programs in the last launch of a grid of *engine*."""
    return getattr(getattr(engine.fast_forward, "grids", None), "skipper", None)


@contextmanager
def least_stages(n_stages: int) -> Iterator[None]:
    """Within the block, commands of *n_stages* or more are isolated."""
    from kb_engine.fastforward.isolated import isolated_commands

    before = isolated_commands.LEAST_ISOLATED_STAGES
    isolated_commands.LEAST_ISOLATED_STAGES = n_stages  # type: ignore[misc]  # a constant, but for tests
    try:
        yield
    finally:
        isolated_commands.LEAST_ISOLATED_STAGES = before  # type: ignore[misc]
