"""A call as run.json has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from kb_cli.benchmark.tensor_placement import TensorPlacement
from kb_messages import DType

Kind = Literal["tensor", "list", "tuple", "dtype", "tile", "value"]


class RecordedArgument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument: a tensor by what describes it, a container by its `items`, or else its `value`.

    `sha256` is that of the bytes that a tensor holds at first, and missing for a tensor without any.
    """

    kind: Kind
    value: Any = None
    items: list[RecordedArgument] = []
    shape: tuple[int, ...] = ()
    dtype: DType | None = None
    sha256: str = ""
    is_output: bool = False
    placement: TensorPlacement | None = None


class RecordedCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call in run.json. `why_not` says why the folder alone cannot repeat the call, and is "" where it can.

    `used` has the values from outside that a kernel uses which the folder cannot repeat, by name.
    """

    kernel: str
    arguments: dict[str, RecordedArgument]
    launch: dict[str, Any]
    flops: int
    why_not: str
    used: dict[str, str] = {}

    @property
    def input_forms(self) -> dict[str, tuple[tuple[int, ...], DType]]:
        """Shape and type of each tensor that holds something at first, by name, in order."""
        return dict(_input_forms(self.arguments))


def _input_forms(arguments: Mapping[str, RecordedArgument]) -> Iterator[tuple[str, tuple[tuple[int, ...], DType]]]:
    for name, each in arguments.items():
        if each.dtype is not None and each.sha256:
            yield name, (each.shape, each.dtype)
        yield from _input_forms({f"{name}_{number}": item for number, item in enumerate(each.items)})
