"""The types of numbers that annotations of a kernel's parameters state, such as `tl.int64`, `"u32"` or `float`."""

from __future__ import annotations

from typing import Any, Final

from kb_triton.language.tensors.dtypes import OF_KB, dtype, float64, int1

_NAMES: Final = {each: each for each in ("fp16", "bf16", "fp32", "fp64")} | {
    "bool": "int1", "i1": "int1", "u1": "int1", "uint1": "int1", "int": "int32", "half": "fp16", "float16": "fp16",
    "bfloat16": "bf16", "float": "fp32", "float32": "fp32", "double": "fp64", "float64": "fp64",
}  # fmt: skip
_TYPES: Final = {each.name: each for each in OF_KB.values() if each.is_int() or each.primitive_bitwidth > 8} | {
    float64.name: float64
}
_SHORT: Final = {
    each.name: "u1" if each is int1 else each.name.replace("uint", "u").replace("int", "i") for each in _TYPES.values()
}
_OF_TEXT: Final = {
    **_TYPES,
    **{_SHORT[each.name]: each for each in _TYPES.values()},
    **{text: _TYPES[name] for text, name in _NAMES.items()},
}
"""The type for each text. Source: `type_canonicalisation_dict` in `python/triton/_utils.py` of Triton 3.9."""


def stated_type(annotation: Any) -> dtype | None:
    """Returns the type of a number that *annotation* states; None for another annotation, such as that of a pointer."""
    if isinstance(annotation, str):
        text = annotation.strip().removeprefix("tl.")
    else:
        text = annotation.name if isinstance(annotation, dtype) else getattr(annotation, "__name__", "")
    return _OF_TEXT.get(text.replace("_t", ""))


def short_name(kind: dtype | None) -> str:
    """Returns the name of the type *kind* in a signature of Triton, such as "i64"; an empty text for None."""
    return "" if kind is None else _SHORT[kind.name]
