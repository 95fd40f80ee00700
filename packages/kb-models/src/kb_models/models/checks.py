"""Checks of the parameters of a run against the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kb_messages import BenchmarkError
from kb_models.models.architecture import Architecture
from kb_models.models.params import ModelParams

_NOT_BUILT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("train", "training", "backward", "finetune"), "training is not built: a run is an inference"),
    **dict.fromkeys(
        ("serve", "serving", "continuous", "mixed", "chunked"),
        "continuous batching is not built: run prefill and decode by themselves, and add up their times",
    ),
}


def check_params(model: Architecture, p: ModelParams, name: str) -> None:
    """Raises BenchmarkError for a phase that *model* does not have, and for more blocks or tokens than it has."""
    if p.phase not in model.phases:
        needs = " or ".join(model.phases)
        raise BenchmarkError(f"{name}: phase", p.phase, needs, _NOT_BUILT.get(p.phase.lower(), ""))
    if p.weights not in model.forms:
        fix = "its ops have no kernels for smaller weights"
        raise BenchmarkError(f"{name}: weights", p.weights, " or ".join(model.forms), fix)
    if p.layers > model.layers:
        raise BenchmarkError(f"{name}: layers", str(p.layers), f"at most {model.layers}, the blocks of the model")
    name_of_length, length = ("tokens", p.tokens) if p.phase == "prefill" else ("context", p.context)
    if model.positions is not None and length > model.positions:
        needs = f"at most {model.positions}, the positions that the model has learned"
        raise BenchmarkError(f"{name}: {name_of_length}", str(length), needs)
