"""Records of run.json from which a run is repeated: a call, the launch of a script, and the check of outputs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.benchmark.call import Call, rebuilt
from kb_cli.benchmark.code.used_values import used_values
from kb_cli.benchmark.values.tensor_argument import TensorArgument, TensorPlacement
from kb_messages import BenchmarkError, CubeTarget, DType, TileShape


class CheckMode(StrEnum):
    """How outputs are compared: each element with the reference, or a sample of products. `auto` chooses by size."""

    AUTO = "auto"
    FULL = "full"
    SAMPLE = "sample"


class RecordedScript(Struct, frozen=True, kw_only=True):
    """Launch number `launch` of the script in the file `path`, which has the bytes of `sha256`.

    `path` is as the user wrote it. The script runs with `arguments`, under `options` of its front end.
    """

    front_end: str
    path: str
    sha256: str
    arguments: list[str]
    options: dict[str, Any]
    launch: int


Kind = Literal["tensor", "list", "tuple", "dtype", "tile", "value"]


class RecordedArgument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument: a tensor by its shape, dtype and placement, a container by its `items`, or else its `value`.

    `sha256` covers the bytes that a tensor holds at first, and is missing for a tensor without any.
    """

    kind: Kind
    value: Any = None
    items: list[RecordedArgument] = []
    shape: tuple[int, ...] = ()
    dtype: DType | None = None
    sha256: str = ""
    is_output: bool = False
    is_scratch: bool = False
    placement: TensorPlacement | None = None


class RecordedCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call in run.json. `why_not` says why the folder alone cannot repeat the call, and is "" where it can.

    `used` has the outside values of a kernel that the folder cannot repeat, by name.
    """

    kernel: str
    arguments: dict[str, RecordedArgument]
    launch: dict[str, Any]
    flops: int
    why_not: str
    used: dict[str, str] = {}

    @property
    def input_forms(self) -> dict[str, tuple[tuple[int, ...], DType]]:
        """Shape and dtype of each tensor that holds something at first, by name, in order."""
        return dict(_input_forms(self.arguments))


def _input_forms(arguments: Mapping[str, RecordedArgument]) -> Iterator[tuple[str, tuple[tuple[int, ...], DType]]]:
    for name, each in arguments.items():
        if each.dtype is not None and each.sha256:
            yield name, (each.shape, each.dtype)
        yield from _input_forms({f"{name}_{number}": item for number, item in enumerate(each.items)})


def record_call(call: Call, why_not: str = "") -> RecordedCall:
    """Returns *call* as a record. *why_not* says why other processes cannot find its kernel, "" where they can."""
    unnamed: list[str] = []
    arguments = {name: _recorded(value, name, unnamed) for name, value in call.arguments.items()}
    kernel = getattr(call.kernel, "__qualname__", call.name)
    reason = why_not or (f"arguments that JSON cannot hold ({', '.join(unnamed)})" if unnamed else "")
    launch = msgspec.to_builtins(call.launch)
    used = used_values(call.kernel) if why_not else {}
    return RecordedCall(kernel=kernel, arguments=arguments, launch=launch, flops=call.flops, why_not=reason, used=used)


def repeated_call(record: RecordedCall, kernel: Callable[..., Any], inputs: Mapping[str, npt.NDArray[Any]]) -> Call:
    """Returns the call that *record* describes. *inputs* has the first content of tensors, by name."""
    launch = dict(record.launch)
    if "targets" in launch:
        launch["targets"] = msgspec.convert(launch["targets"], list[CubeTarget])
    arguments = {name: _repeated(each, name, inputs) for name, each in record.arguments.items()}
    return Call(kernel, arguments, launch, flops=record.flops)


def shown_arguments(call: Call) -> dict[str, object]:
    """Returns the arguments as a report shows them: numbers and texts unchanged, tensors by dtype and shape."""
    return {name: _shown(value) for name, value in call.arguments.items()}


def bytes_sha256(array: npt.NDArray[Any]) -> str:
    """Returns the sha256 of the bytes of *array*, row by row, in hex."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _recorded(value: Any, name: str, unnamed: list[str]) -> RecordedArgument:
    """Returns *value*, the argument *name*, as a record. Adds *name* to *unnamed* where JSON cannot hold it."""
    if isinstance(value, TensorArgument):
        return RecordedArgument(
            kind="tensor",
            shape=value.shape,
            dtype=value.dtype,
            sha256="" if value.data is None else bytes_sha256(value.data),
            is_output=value.is_output,
            is_scratch=value.is_scratch,
            placement=value.placement,
        )
    if type(value) in (list, tuple):
        items = [_recorded(each, f"{name}_{number}", unnamed) for number, each in enumerate(value)]
        return RecordedArgument(kind="list" if type(value) is list else "tuple", items=items)
    if isinstance(value, DType):
        return RecordedArgument(kind="dtype", value=value.value)
    if isinstance(value, TileShape):
        return RecordedArgument(kind="tile", value=str(value))
    if not _is_plain(value):
        unnamed.append(name)
    return RecordedArgument(kind="value", value=_shown(value))


def _repeated(record: RecordedArgument, name: str, inputs: Mapping[str, npt.NDArray[Any]]) -> Any:
    if record.kind == "tensor":
        if record.dtype is None or record.placement is None:
            raise BenchmarkError(f"argument {name}", "a tensor without type or place", "both, as the run wrote them")
        flags = record.is_output, record.placement, record.is_scratch
        return TensorArgument(record.shape, record.dtype, inputs.get(name), *flags)
    if record.kind in ("list", "tuple"):
        items = [_repeated(each, f"{name}_{number}", inputs) for number, each in enumerate(record.items)]
        return rebuilt([] if record.kind == "list" else (), items)
    if record.kind == "dtype":
        return DType(record.value)
    return TileShape.parse(record.value) if record.kind == "tile" else record.value


def _is_plain(value: Any) -> bool:
    """Whether JSON holds *value* and gives it back: None, a text, a bool, an integer of 64 bits, a finite number."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return value is None or type(value) in (bool, str) or (type(value) is float and math.isfinite(value))


def _shown(value: Any) -> object:
    """Returns *value* as JSON and reports show it. A value that JSON cannot hold becomes a text."""
    if _is_plain(value):
        return value
    if isinstance(value, (TensorArgument, TileShape, int, float)):
        return str(value)
    if isinstance(value, DType):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_shown(each) for each in value]
    text = repr(value)[:100]
    return text if " at 0x" not in text else f"a {type(value).__name__}"
