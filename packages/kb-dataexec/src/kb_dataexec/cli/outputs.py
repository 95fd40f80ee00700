"""The outputs that `run` reads after a log: matrices in memory, their references and their tolerances."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.cli.output import UsageError
from kb_dataexec.files import read_array
from kb_dataexec.memory.store import MemoryStore
from kb_messages import OFFSET_BITS, AddressError, DType, PhysAddr, Rectangle, split_address

_PLACE: Final = re.compile(r"(?P<address>\w+):(?P<rows>\d{1,10})x(?P<cols>\d{1,10}):(?P<dtype>\w+)(:(?P<stride>\w+))?")
_NAME: Final = re.compile(r"[^/\\\0.][^/\\\0]{0,99}")
"""A name becomes the name of a file below --out."""
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
        """Reads the values, of shape (rows, cols). Raises StoreError for bytes that are not initialised."""
        return memory.read(self.owner, self.offset, self.rows, self.cols * self.dtype.nbytes, self.stride, self.dtype)

    @property
    def rectangle(self) -> Rectangle:
        """The bytes of the matrix."""
        return Rectangle.of_memory(self.owner, self.offset, self.rows, self.cols * self.dtype.nbytes, self.stride)

    def byte_of(self, index: tuple[int, ...]) -> tuple[int, int]:
        """Returns (owner, offset) of the first byte of the element at *index*, (row, col)."""
        row, col = index
        return self.owner, self.offset + row * self.stride + col * self.dtype.nbytes


def parse_outputs(places: Sequence[str], references: Sequence[str], allowed: Sequence[str]) -> list[Output]:
    """Returns the outputs that the options describe. Raises UsageError if the options do not fit together."""
    expected, errors = _arrays("--reference", references), _arrays("--allowed", allowed)
    outputs = [_output(text, expected, errors) for text in places]
    names = [output.name for output in outputs]
    for option, given in (("--output", names), ("--reference", list(expected)), ("--allowed", list(errors))):
        for name in given:
            if names.count(name) != 1:
                got = "no output of that name" if name not in names else "two outputs of that name"
                raise UsageError(f"{option} {name}", got, "one", f"give --output {name}=... once")
    for name in errors.keys() - expected.keys():
        raise UsageError(f"--allowed {name}", "no reference of that name", "one", f"give --reference {name}=FILE.npy")
    return outputs


def _output(text: str, expected: dict[str, Array], errors: dict[str, Array]) -> Output:
    name, _, place = text.partition("=")
    found = _PLACE.fullmatch(place)
    try:
        if found is None or not _NAME.fullmatch(name):
            raise ValueError
        dtype = DType(found["dtype"])
        rows, cols = int(found["rows"]), int(found["cols"])
        stride = int(found["stride"] or str(cols * dtype.nbytes), 0)
    except ValueError:
        fix = f"write it like c=0x1000000000000:64x64:f16; types are {', '.join(DType)}"
        raise UsageError("--output", repr(text), _NEEDS, fix) from None
    _check_rectangle(name, rows, cols * dtype.nbytes, stride)
    owner, offset = place_of(f"--output {name}", found["address"])
    reference = _shaped("--reference", name, expected, (rows, cols))
    tolerance = _shaped("--allowed", name, errors, (rows, cols))
    return Output(name, owner, offset, rows, cols, dtype, stride, reference, tolerance)


def _check_rectangle(name: str, rows: int, row_nbytes: int, stride: int) -> None:
    if rows < 1 or row_nbytes < 1:
        raise UsageError(f"--output {name}", f"{rows} rows of {row_nbytes} bytes", "one element or more")
    if rows > 1 and stride < row_nbytes:
        got = f"a stride of {stride} bytes for rows of {row_nbytes}"
        raise UsageError(f"--output {name}", got, "a stride of a row or more")
    nbytes = (rows - 1) * stride + row_nbytes
    if nbytes > 1 << OFFSET_BITS:
        raise UsageError(f"--output {name}", f"{nbytes} bytes", f"at most {1 << OFFSET_BITS}, the largest memory")


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
    """Reads the array in a .npy file. Raises UsageError if there is none, or its elements are no real numbers."""
    array = read_array(file, UsageError)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def place_of(option: str, text: str) -> tuple[int, int]:
    """Returns (owner, offset) of the physical address *text*. Raises UsageError for a number that is no address."""
    try:
        PhysAddr.decode(int(text, 0))
    except ValueError:
        raise UsageError(option, f"the address {text[:80]!r}", "a number such as 0x1000000000000") from None
    except AddressError as error:
        raise UsageError(option, f"the address {text[:80]!r}", error.needs) from None
    return split_address(int(text, 0))
