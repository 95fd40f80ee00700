"""Levers: fields of a block's attributes that are costs, and the parts of a critical path that each makes cheaper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

_KEY: Final = "lever"


class Lever(Struct, frozen=True):
    """The effect of a cost field on a critical path. It stands in the field's `Meta`, as `extra=Lever(...).extra`.

    `classes` are the parts of a critical path that scale with the field. A class is one activity of a block (`hbm:
    bytes`), or all activities of a block (`pe_gemm`). A service that a log does not split (`pe_dma: service`) belongs
    to every lever that scales a piece of it, so that no bound is too high. `better` says whether twice or half the
    value, or one more, is the faster chip. `noun` is the field's name in sentences, such as `bandwidth`.

    A lever of one more is a number of places, such as slots. `edge` is the edge of a path by which work holds up what
    waits for a place. Of the classes, it moves only the time with this edge, which vanishes at best.
    """

    classes: tuple[str, ...]
    better: Literal["twice", "half", "one more"]
    noun: str
    edge: str = ""

    @property
    def extra(self) -> dict[str, Any]:
        """The `extra` of a `Meta` that holds this lever."""
        return {_KEY: self}

    def moves(self, block: str, what: str, edge: str = "") -> bool:
        """Whether the time of *block* with the activity *what*, which holds up by *edge*, scales with the field."""
        is_class = block in self.classes or f"{block}: {what}" in self.classes
        return is_class and self.edge in ("", edge)


def levers_of(spec_type: type[Struct]) -> Iterator[tuple[str, Lever]]:
    """Yields (name in a file, lever) of every field of *spec_type* that has a lever, in order."""
    info: Any = msgspec.inspect.type_info(spec_type)
    for field in info.fields:
        lever = _lever(field.type)
        if lever is not None:
            yield field.encode_name, lever


def _lever(type_: Any) -> Lever | None:
    """The lever of a field's type as msgspec describes it. An optional field has it in one of its alternatives."""
    for each in getattr(type_, "types", (type_,)):
        found = (getattr(each, "extra", None) or {}).get(_KEY)
        if isinstance(found, Lever):
            return found
    return None
