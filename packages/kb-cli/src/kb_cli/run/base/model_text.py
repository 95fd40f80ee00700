"""The time of a whole model in words: a step or the time to the first token, its rate, and the floor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kb_cli.run.base.workload_result import ModelTimes
from kb_cli.terminal.units import duration, quantity

TIME_NAMES: Final = {"decode": "step", "prefill": "first token", "pass": "pass"}
"""The names of the time of a model, by phase."""


def model_rows(model: ModelTimes) -> Iterator[tuple[str, str]]:
    """Yields the rows of a summary: the time of the model, and its floor. Each is a name and a text."""
    gaps = f"kernels {duration(model.kernels_ps)}, gaps {duration(model.gaps_ps)}"
    yield TIME_NAMES[model.phase], f"{step_text(model)} ({gaps})"
    if model.floor_ps is None:
        return
    through = f"{quantity(model.floor_nbytes, 'B')} of weights and caches once through all HBM"
    times = f"; the model takes {model.total_ps / model.floor_ps:.2f} times as long" if model.floor_ps else ""
    yield "floor", f"{duration(model.floor_ps)}{_rate(model.floor_items_per_s, model.unit)}: {through}{times}"


def step_text(model: ModelTimes) -> str:
    """Returns the time of the model with its work: `2.913 ms for 8 tokens, 2,746 tokens/s`."""
    unit = model.unit if model.items != 1 else model.unit.removesuffix("s")
    what = f"after {model.items:,} {unit} of prompts" if model.phase == "prefill" else f"for {model.items:,} {unit}"
    return f"{duration(model.total_ps)} {what}{_rate(model.items_per_s, model.unit)}"


def rate_text(per_s: float | None, unit: str) -> str:
    """Returns a rate of a model: `2,746 tokens/s`; `-` for None."""
    if per_s is None:
        return "-"
    return f"{per_s:,.0f} {unit}/s" if per_s >= 100 else f"{per_s:.4g} {unit}/s"


def _rate(per_s: float | None, unit: str) -> str:
    return "" if per_s is None else f", {rate_text(per_s, unit)}"
