"""Checks of the parameters of a run against the model."""

from __future__ import annotations

from msgspec.structs import replace

from kb_messages import BenchmarkError
from kb_models.models.architecture import Architecture
from kb_models.models.params import ModelParams


def checked(model: Architecture, p: ModelParams, name: str) -> ModelParams:
    """*p* with its phase, the first one of *model* by default.

    Raises BenchmarkError for a phase that the model does not have, and for more blocks than it has.
    """
    phase = p.phase or model.phases[0]
    if phase not in model.phases:
        raise BenchmarkError(f"{name}: phase", phase, " or ".join(model.phases), f"leave out the phase of {name}")
    if p.layers > model.layers:
        raise BenchmarkError(f"{name}: layers", str(p.layers), f"at most {model.layers}, the blocks of the model")
    return replace(p, phase=phase)
