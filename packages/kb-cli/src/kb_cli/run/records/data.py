"""The data in a run folder: initial memory, expected outputs and log. A verification needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from kb_cli.benchmark.expected import (
    AnyExpected,
    AnyOpExpected,
    Expected,
    ExpectedProduct,
    OpExpected,
    OpProduct,
    OutputParts,
)
from kb_cli.benchmark.values.tensor_argument import dtype_of
from kb_cli.run.base.files import EXPECTED, LOG, MEMORY, RunFolderError, write_json
from kb_cli.run.records.own_log import MOST_WHOLE
from kb_dataexec import MemoryStore, numpy_dtype
from kb_dataexec.analysis import Programs
from kb_dataexec.files import file_in, read_array, read_json, write_array, writing
from kb_dataexec.log import LogFolder, LogParts
from kb_dataexec.verify import Rounding, why_not_sampled
from kb_engine import OutputPart, Tensor
from kb_messages import ADDRESS_BITS, OFFSET_BITS, DType, join_address

INDEX = "index.json"
"""The name of the list of outputs in the folder of expected outputs."""


class StoredFactor(Struct, frozen=True, kw_only=True):
    """A factor of an output that is checked by sample: the file of its bytes, and its dtype."""

    file: str
    dtype: DType


class StoredProduct(Struct, frozen=True, kw_only=True):
    """The factors of an output of M x N, A of M x `k` and B of `k` x N, and the seed of the sample."""

    a: StoredFactor
    b: StoredFactor
    k: Annotated[int, Meta(ge=1)]
    seed: Annotated[int, Meta(ge=0)]


class StoredOutput(Struct, frozen=True, kw_only=True):
    """One output in the index: its name, the files of its reference and its allowed error, and the rest of Expected.

    The result of an op of a workload has `parts` in place of the tensor, of an array of `shape` and `dtype`.

    With `product`, the output is checked by sample and has neither of the two files. `offset_bits` is the number of
    bits of the offset in the tensor's addresses; runs that do not state it have 32.
    """

    name: str
    reference: str = ""
    allowed: str = ""
    tensor: Tensor | UnsetType = UNSET
    parts: list[OutputPart] | UnsetType = UNSET
    shape: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    dtype: DType | UnsetType = UNSET
    default_terms: int | None = None
    rounding: Rounding | UnsetType = UNSET
    product: StoredProduct | UnsetType = UNSET
    offset_bits: Annotated[int, Meta(ge=32, le=OFFSET_BITS)] = 32


class RunData(NamedTuple):
    """The data that `kb verify` computes with, and the digest of the log. `programs` finds the programs of the log."""

    log: LogParts
    programs: Callable[[], Programs]
    digest: str | None
    memory: MemoryStore
    expected: dict[str, AnyExpected | AnyOpExpected]


def load_data(folder: Path, n_records: int) -> RunData:
    """Returns log, initial memory and expected outputs of the run folder *folder*. Raises a KbError when one is
    damaged.

    A log of more than MOST_WHOLE of *n_records* is read in parts where all outputs are checked by sample.
    """
    expected = load_expected(folder / EXPECTED)
    are_sampled = all(isinstance(each, ExpectedProduct | OpProduct) for each in expected.values())
    source = LogFolder(folder / LOG)
    in_parts = source.by_command() if are_sampled and n_records > MOST_WHOLE else None
    if in_parts is None:
        log: LogParts = (rows := source.whole())
        programs = partial(Programs.of, rows)
    else:
        log, programs = in_parts, partial(_programs_of, source)
    return RunData(log, programs, source.summary.digest, MemoryStore.load(folder / MEMORY), expected)


def _programs_of(source: LogFolder) -> Programs:
    """Returns the programs of a log that is read in parts, and has been read before."""
    found = Programs()
    for chunk in source.some_chunks(lambda first, last: False):
        found.look(chunk)
    return found


def save_expected(folder: Path, expected: Mapping[str, AnyExpected | AnyOpExpected]) -> None:
    """Creates *folder* with each output's reference and allowed error as .npy, and an index of the output tensors.

    For an output that is checked by sample, the bytes of its factors are written instead.
    """
    with writing(folder):
        folder.mkdir()
    index = []
    for number, (name, output) in enumerate(expected.items()):
        entry = _placed(name, output)
        if isinstance(output, ExpectedProduct | OpProduct):
            index.append(replace(entry, product=_save_product(folder, number, output)))
            continue
        stored = replace(entry, reference=f"{number:06d}.npy", allowed=f"{number:06d}.allowed.npy")
        write_array(folder / stored.reference, output.reference)
        write_array(folder / stored.allowed, output.allowed)
        index.append(stored)
    write_json(folder / INDEX, index)


def _placed(name: str, output: AnyExpected | AnyOpExpected) -> StoredOutput:
    """Returns the entry of *output* with its place on the chip, without the files of its arrays."""
    if isinstance(output, OpExpected | OpProduct):
        shape, dtype, parts = output.stored
        return StoredOutput(name=name, parts=list(parts), shape=shape, dtype=dtype, offset_bits=OFFSET_BITS)
    if isinstance(output, ExpectedProduct):
        return StoredOutput(name=name, tensor=output.tensor, offset_bits=OFFSET_BITS)
    return StoredOutput(
        name=name,
        tensor=output.tensor,
        default_terms=output.default_terms,
        rounding=UNSET if output.rounding is None else output.rounding,
        offset_bits=OFFSET_BITS,
    )


def _save_product(folder: Path, number: int, output: ExpectedProduct | OpProduct) -> StoredProduct:
    def save(letter: str, array: npt.NDArray[Any]) -> StoredFactor:
        _save_bytes(folder / f"{number:06d}.{letter}.npy", array)
        return StoredFactor(file=f"{number:06d}.{letter}.npy", dtype=dtype_of(array.dtype))

    return StoredProduct(a=save("a", output.a), b=save("b", output.b), k=output.a.shape[1], seed=output.seed)


def _save_bytes(path: Path, array: npt.NDArray[Any]) -> None:
    write_array(path, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _load_bytes(folder: Path, name: str, shape: tuple[int, ...], dtype: DType) -> npt.NDArray[Any]:
    """Returns the array that `_save_bytes` wrote. Raises RunFolderError for a file of another length."""
    path = file_in(folder, name, RunFolderError)
    data = read_array(path, RunFolderError, kinds="u", ndim=1)
    if data.dtype != np.uint8 or data.size != math.prod(shape) * dtype.nbytes:
        raise RunFolderError(str(path), f"{data.size} bytes", f"the bytes of {dtype} {shape}")
    return data.view(numpy_dtype(dtype)).reshape(shape)


def save_inputs(folder: Path, inputs: Mapping[str, npt.NDArray[Any]]) -> None:
    """Creates *folder* with the bytes of each input of a call, which no code of the folder can make again."""
    with writing(folder):
        folder.mkdir()
    for number, array in enumerate(inputs.values()):
        _save_bytes(folder / f"{number:06d}.npy", array)


def load_inputs(folder: Path, forms: Mapping[str, tuple[tuple[int, ...], DType]]) -> dict[str, npt.NDArray[Any]]:
    """Returns the inputs that `save_inputs` wrote, by name. *forms* has the shape and dtype of each, in order.

    Raises RunFolderError when a file is missing, damaged, or of another length.
    """
    return {
        name: _load_bytes(folder, f"{number:06d}.npy", shape, dtype)
        for number, (name, (shape, dtype)) in enumerate(forms.items())
    }


def load_expected(folder: Path) -> dict[str, AnyExpected | AnyOpExpected]:
    """Returns the outputs that `save_expected` wrote. Raises RunFolderError when a file is damaged, or no output is
    there.
    """
    path = file_in(folder, INDEX, RunFolderError)
    index = read_json(path, list[StoredOutput], RunFolderError)
    if not index:
        raise RunFolderError(str(path), "no outputs", "at least one, because nothing would be compared")
    expected = {entry.name: _load(folder, entry) for entry in index}
    if len(expected) != len(index):
        raise RunFolderError(str(path), "an output that is listed twice", "each output once")
    return expected


def _load(folder: Path, entry: StoredOutput) -> AnyExpected | AnyOpExpected:
    where = f"{folder / INDEX}: {entry.name[:80]!r}"
    if isinstance(entry.tensor, UnsetType):
        stored = _load_parts(where, entry)
        if not isinstance(entry.product, UnsetType):
            return OpProduct(*_load_factors(folder, where, stored.shape, stored.dtype, entry.product), stored)
        return OpExpected(*_load_reference(folder, where, entry, stored.shape), stored)
    tensor = _with_addresses(entry.tensor, entry.offset_bits)
    if not _is_grid(tensor):
        raise RunFolderError(where, _UNEQUAL, "the tensor that the run wrote")
    if not isinstance(entry.product, UnsetType):
        return ExpectedProduct(tensor, *_load_factors(folder, where, tensor.shape, tensor.dtype, entry.product))
    rounding = entry.rounding if isinstance(entry.rounding, Rounding) else None
    return Expected(tensor, *_load_reference(folder, where, entry, tensor.shape), entry.default_terms, rounding)


_UNEQUAL = "a tensor of unequal shape, bounds or addresses"


def _load_parts(where: str, entry: StoredOutput) -> OutputParts:
    """Returns the place of the result of an op. Raises RunFolderError unless its parts cover an array of its shape."""
    parts = [] if isinstance(entry.parts, UnsetType) else entry.parts
    if isinstance(entry.dtype, UnsetType) or not parts:
        raise RunFolderError(where, "no tensor and no parts", "one of the two")
    found = [OutputPart(part.bounds, _with_addresses(part.tensor, entry.offset_bits)) for part in parts]
    for part in found:
        inside = len(part.bounds) == len(entry.shape) and all(
            0 <= start < stop <= size for (start, stop), size in zip(part.bounds, entry.shape, strict=True)
        )
        same = tuple(stop - start for start, stop in part.bounds) == part.tensor.shape
        if not (inside and same and part.tensor.dtype is entry.dtype and _is_grid(part.tensor)):
            raise RunFolderError(where, _UNEQUAL, "the tensor that the run wrote")
    blocks = {part.bounds: part.tensor.shape for part in found}
    is_covered = sum(map(prod, blocks.values())) == prod(entry.shape)
    if is_covered:
        covered = np.zeros(entry.shape, np.bool_)
        for bounds in blocks:
            covered[tuple(slice(*each) for each in bounds)] = True
        is_covered = bool(covered.all())
    if not is_covered:
        raise RunFolderError(where, "parts that do not cover the output once", "the parts that the run wrote")
    return OutputParts(entry.shape, entry.dtype, tuple(found))


def _load_reference(
    folder: Path, where: str, entry: StoredOutput, shape: tuple[int, ...]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns the reference and the allowed error of an output of *shape*."""
    reference, allowed = (
        read_array(file_in(folder, name, RunFolderError), RunFolderError, kinds=kinds)
        for name, kinds in ((entry.reference, "biuf"), (entry.allowed, "f"))
    )
    if reference.shape != shape:
        raise RunFolderError(where, f"a reference of shape {reference.shape}", f"the tensor's, {shape}")
    if allowed.shape not in ((), (1,), shape) and not _broadcasts(allowed.shape, shape):
        raise RunFolderError(where, f"allowed errors of shape {allowed.shape}", f"one number or shape {shape}")
    if not np.all(np.isfinite(allowed) & (allowed >= 0)):
        raise RunFolderError(where, "an allowed error that is negative or not finite", "finite numbers of 0 or more")
    return reference, allowed


def _load_factors(
    folder: Path, where: str, shape: tuple[int, ...], dtype: DType, stored: StoredProduct
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int]:
    """Returns the factors of a product of *shape* and *dtype*, and the seed of the sample."""
    if len(shape) != 2:
        raise RunFolderError(where, f"a product of shape {shape}", "one of two dimensions")
    (rows, cols), k = shape, stored.k
    a = _load_bytes(folder, stored.a.file, (rows, k), stored.a.dtype)
    b = _load_bytes(folder, stored.b.file, (k, cols), stored.b.dtype)
    why = why_not_sampled(a, b, dtype)
    if why is not None:
        raise RunFolderError(where, why, "a product that can be sampled")
    return a, b, stored.seed


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _with_addresses(tensor: Tensor, offset_bits: int) -> Tensor:
    """Returns *tensor*, whose addresses have *offset_bits* bits of offset, with today's addresses. Virtual ones
    stay.
    """

    def moved(grid: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(join_address(each >> offset_bits, each & (1 << offset_bits) - 1) for each in row) for row in grid
        )

    if offset_bits == OFFSET_BITS:
        return tensor
    return replace(tensor, addresses=moved(tensor.addresses), copies=tuple(map(moved, tensor.copies)))


def _is_grid(tensor: Tensor) -> bool:
    """Whether the bounds of *tensor* rise from 0 to its shape, and there is an address for each block between them."""
    rows, cols = tensor.row_bounds, tensor.col_bounds
    rises = all(bounds[:1] == (0,) and list(bounds) == sorted(set(bounds)) for bounds in (rows, cols))
    grids = (tensor.addresses, *tensor.copies, *tensor.virtual)
    return (
        rises
        and len(tensor.shape) > 0
        and (prod(tensor.shape[:-1]), tensor.shape[-1]) == (rows[-1], cols[-1])
        and all(len(grid) == len(rows) - 1 and all(len(row) == len(cols) - 1 for row in grid) for grid in grids)
        and all(0 <= address < 1 << ADDRESS_BITS for grid in grids for row in grid for address in row)
    )
