"""The outputs that `run` reads after a log: matrices in memory, their references and their tolerances."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.cli.output import UsageError
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.verify.tolerance import default_tolerance
from kb_messages import DType, split_address

_PLACE: Final = re.compile(r"(?P<address>\w+):(?P<rows>\d+)x(?P<cols>\d+):(?P<dtype>\w+)(:(?P<stride>\w+))?")
_NEEDS: Final = "NAME=ADDRESS:ROWSxCOLS:DTYPE[:STRIDE]"


class Output(NamedTuple):
    """A matrix at a physical address. `reference` and `allowed` are None if the user gave none."""

    name: str
    owner: int
    offset: int
    rows: int
    cols: int
    dtype: DType
    stride: int
    reference: Array | None
    allowed: Array | None

    def read(self, memory: MemoryStore) -> Array:
        """The values, (rows, cols). Raises StoreError when bytes are not initialised."""
        return memory.read(self.owner, self.offset, self.rows, self.cols * self.dtype.nbytes, self.stride, self.dtype)

    def byte_of(self, index: tuple[int, ...]) -> tuple[int, int]:
        """(owner, offset) of the first byte of the element at *index*, (row, col)."""
        row, col = index
        return self.owner, self.offset + row * self.stride + col * self.dtype.nbytes


def parse_outputs(
    places: Sequence[str], references: Sequence[str], allowed: Sequence[str], length: int
) -> list[Output]:
    """The outputs that the options describe. Raises UsageError when the options do not fit together."""
    expected, errors = _arrays("--reference", references), _arrays("--allowed", allowed)
    outputs = [_output(text, expected, errors, length) for text in places]
    names = [output.name for output in outputs]
    for option, given in (("--output", names), ("--reference", list(expected)), ("--allowed", list(errors))):
        for name in given:
            if names.count(name) != 1:
                got = "no output of that name" if name not in names else "two outputs of that name"
                raise UsageError(f"{option} {name}", got, "one", f"give --output {name}=... once")
    for name in errors.keys() - expected.keys():
        raise UsageError(f"--allowed {name}", "no reference of that name", "one", f"give --reference {name}=FILE.npy")
    return outputs


def _output(text: str, expected: dict[str, Array], errors: dict[str, Array], length: int) -> Output:
    name, _, place = text.partition("=")
    found = _PLACE.fullmatch(place)
    try:
        if found is None or not name:
            raise ValueError
        address, dtype = int(found["address"], 0), DType(found["dtype"])
        rows, cols = int(found["rows"]), int(found["cols"])
        stride = int(found["stride"] or str(cols * dtype.nbytes), 0)
    except ValueError:
        fix = f"write it like c=0x40000000000:64x64:f16; types are {', '.join(DType)}"
        raise UsageError("--output", repr(text), _NEEDS, fix) from None
    reference = _shaped("--reference", name, expected, (rows, cols))
    tolerance = _shaped("--allowed", name, errors, (rows, cols))
    if reference is not None and tolerance is None:
        tolerance = default_tolerance(reference, dtype, length)
    return Output(name, *split_address(address), rows, cols, dtype, stride, reference, tolerance)


def _shaped(option: str, name: str, arrays: dict[str, Array], shape: tuple[int, int]) -> Array | None:
    array = arrays.get(name)
    if array is None or (array.size == 1 and option == "--allowed"):
        return array
    if array.size != shape[0] * shape[1]:
        got = f"an array of shape {array.shape}"
        raise UsageError(f"{option} {name}", got, f"{shape[0]} x {shape[1]} elements")
    return array.reshape(shape)


def _arrays(option: str, texts: Sequence[str]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for text in texts:
        name, _, file = text.partition("=")
        if not name or not file or name in arrays:
            raise UsageError(option, repr(text), "NAME=FILE.npy, each name once")
        arrays[name] = load_array(Path(file))
    return arrays


def load_array(file: Path) -> Array:
    """The array in a .npy file. Raises UsageError when there is none, or its elements are no real numbers."""
    try:
        array: Array = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(str(file), "no such file", "a .npy file") from None
    except (ValueError, EOFError) as error:
        raise UsageError(str(file), f"no array ({error})", "a .npy file") from None
    if array.dtype.kind not in "fiub":
        raise UsageError(str(file), f"an array of {array.dtype}", "real numbers")
    return array
