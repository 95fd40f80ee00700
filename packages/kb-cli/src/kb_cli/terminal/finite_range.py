"""FiniteRange: the numbers that options take which are compared with something."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """As click's FloatRange, without `nan`, which no comparison finds too large, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number that *value* is. Refuses one that is not finite or out of the range."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"got {value}, needs a finite number.", param, ctx)
        return found
