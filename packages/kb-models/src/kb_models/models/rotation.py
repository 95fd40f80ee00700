"""Rotation: the angles of rotary positions, as a configuration states them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from kb_models.layout.value import Array
from kb_models.models.config import ConfigKeys


class Rotation(Struct, frozen=True, kw_only=True):
    """Angles of `theta`, and their change for a longer context.

    All frequencies are divided by `factor`; with `original` positions, those alone whose wave is longer than
    `original / low` positions, and those up to `original / high` not at all. Source: Su et al., arXiv 2104.09864; Chen
    et al., arXiv 2306.15595 (all of them); Dubey et al., arXiv 2407.21783, and Hugging Face's `llama3` (by wave).
    """

    theta: float = 10000.0
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 0

    @classmethod
    def read(cls, keys: ConfigKeys) -> Rotation:
        """The rotation that `rope_theta` with `rope_scaling`, or `rope_parameters`, state.

        Raises BenchmarkError for a kind of scaling that is not built.
        """
        stated = "rope_parameters" if keys.get("rope_parameters") is not None else "rope_scaling"
        scaling = keys.get(stated) or {}
        if not isinstance(scaling, Mapping):
            raise keys.error(stated, repr(scaling), "an object with a rope_type")
        of = ConfigKeys({**scaling, "rope_type": _kind(scaling)}, f"{keys.name}: {stated}")
        of.get("type")
        kind = of.choice("rope_type", ("default", "linear", "llama3"))
        theta = of.number("rope_theta", keys.number("rope_theta", 10000.0))
        found = {"factor": of.number("factor")} if kind != "default" else {}
        if kind == "llama3":
            found |= {"low": of.number("low_freq_factor"), "high": of.number("high_freq_factor")}
            found["original"] = of.size("original_max_position_embeddings")
            if found["low"] >= found["high"]:
                raise of.error("low_freq_factor", str(found["low"]), f"less than high_freq_factor, {found['high']}")
        of.refuse_unread()
        return cls(theta=theta, **found)  # type: ignore[arg-type]  # original is the only int

    def frequencies(self, head_dim: int) -> Array:
        """The angle of each pair of a head for one position, in radians: an array of head_dim / 2 in float64."""
        found = self.theta ** (-2 * np.arange(head_dim // 2) / head_dim)
        if not self.original:
            return found / self.factor
        waves = 2 * math.pi / found
        smooth = np.clip((self.original / waves - self.low) / (self.high - self.low), 0, 1)
        return (1 - smooth) * found / self.factor + smooth * found


def _kind(scaling: Mapping[str, Any]) -> object:
    return scaling.get("rope_type", scaling.get("type", "default"))
