"""Rules for random numbers."""

from __future__ import annotations

from kb_triton.checking.functions_of_tl.rules import NONE, rule, tensor_of
from kb_triton.checking.values import Typed, Value
from kb_triton.language.tensors.dtypes import float32


@rule("rand", jitted=True)
def rand(seed: Value, offset: Value, n_rounds: Value = NONE) -> Value:
    """Returns the type of `tl.rand`."""
    return Typed(float32, tensor_of(offset).shape)


@rule("randn", jitted=True)
def randn(seed: Value, offset: Value, n_rounds: Value = NONE) -> Value:
    """Returns the type of `tl.randn`."""
    return Typed(float32, tensor_of(offset).shape)
