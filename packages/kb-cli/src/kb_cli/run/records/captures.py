"""Values that kernels capture and print: collected in pass 1, computed by pass 2, and kept in the run folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.benchmark.values.tensor_argument import dtype_of
from kb_cli.run.base.files import CAPTURES, RunFolderError, write_json
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.run_json import read_one_run
from kb_dataexec import numpy_dtype
from kb_dataexec.execute import Look
from kb_dataexec.files import file_in, read_array, read_json, write_array, writing
from kb_engine.observe import Capture, Chip, Observer, shown_array
from kb_messages import DType, KbError, write_out
from kb_topology import did_you_mean, listing

INDEX = "index.json"


class Captured(NamedTuple):
    """A capture with its value, of the shape that the kernel saw.

    `pe` is the number of the PE in the chip. `value` is None where the value could not be computed, and `why_not` says
    why.
    """

    capture: Capture
    pe: int
    value: npt.NDArray[Any] | None
    why_not: str = ""


class StoredCapture(Struct, frozen=True, kw_only=True):
    """One capture in the index of a run folder. `number` counts the captures of its name on its PE, from 0.

    `file` has the bytes of the elements in order. It is "" for a capture without a value, and `why_not` says why.
    """

    name: str
    number: int
    pe: int
    pe_id: str
    program: int
    line: str
    command_seq: int
    dtype: DType
    shape: tuple[int, ...]
    file: str
    why_not: str = ""


class CaptureCollector(Observer):
    """Collects the captures of a run, in the order of the kernels' calls."""

    def __init__(self) -> None:
        self.found: list[Capture] = []
        self._numbers: dict[str, int] = {}

    def on_built(self, chip: Chip) -> None:
        """Keeps the numbers of the PEs."""
        self._numbers = {pe_id: number for number, pe_id in enumerate(chip.topology.graph.pe_ids)}

    def on_capture(self, capture: Capture) -> None:
        """Adds *capture*, unless it is the condition of an assertion."""
        if not capture.is_assertion:
            self.found.append(capture)

    @property
    def looks(self) -> list[Look]:
        """The places and moments at which pass 2 reads the values that pass 1 does not know."""
        return [Look(each.command_seq, place.rectangle, place.dtype) for each in self.found for place in each.places]

    def captured(self, seen: Sequence[npt.NDArray[Any] | KbError]) -> list[Captured]:
        """Returns all captures with their values. *seen* has an array or an error for each of `looks`, in order."""
        left, found = iter(seen), []
        for each in self.found:
            contents = [next(left) for _ in each.places]
            arrays = [content for content in contents if not isinstance(content, KbError)]
            error = next((content for content in contents if isinstance(content, KbError)), None)
            array = each.value_from(arrays) if error is None else None
            found.append(Captured(each, self._numbers[each.pe_id], array, "" if error is None else str(error)))
        return found

    def without_pass_2(self) -> list[Captured]:
        """Returns all captures of a run without pass 2. Only values that pass 1 knows are there."""
        why_not = KbError("a pending value", "a run without pass 2", "one, which computes it", "leave out --no-verify")
        return self.captured([why_not] * len(self.looks))


def print_captured(found: Iterable[Captured]) -> None:
    """Writes the prints whose values pass 2 has computed to standard output, one after the other."""
    for each in found:
        if each.capture.is_print:
            text = shown_array(each.value) if each.value is not None else f"no value: {each.why_not}"
            write_out(f"{each.capture.where}: {each.capture.name} {text}\n")


def save_captures(folder: Path, found: Iterable[Captured]) -> None:
    """Creates *folder* with the bytes of each value, and an index."""
    with writing(folder):
        folder.mkdir()
    counts: dict[tuple[str, int], int] = {}
    index = []
    for at, each in enumerate(found):
        capture, key = each.capture, (each.capture.name, each.pe)
        file = f"{at:06d}.npy" if each.value is not None else ""
        if each.value is not None:
            write_array(folder / file, np.ascontiguousarray(each.value).reshape(-1).view(np.uint8))
        stored = StoredCapture(
            name=capture.name,
            number=counts.get(key, 0),
            pe=each.pe,
            pe_id=capture.pe_id,
            program=capture.program,
            line=capture.line,
            command_seq=capture.command_seq,
            dtype=_dtype_of(each),
            shape=capture.shape,
            file=file,
            why_not=each.why_not,
        )
        counts[key] = stored.number + 1
        index.append(stored)
    write_json(folder / INDEX, index)


def load_index(folder: Path) -> list[StoredCapture]:
    """Returns the captures that `save_captures` wrote to *folder*. Raises RunFolderError when the index is damaged."""
    return read_json(file_in(folder, INDEX, RunFolderError), list[StoredCapture], RunFolderError)


def load_value(folder: Path, stored: StoredCapture) -> npt.NDArray[Any]:
    """Returns the value of *stored*. Raises RunFolderError for a damaged file, and for a capture without a value."""
    if not stored.file:
        raise RunFolderError(f"capture {stored.name}", f"no value ({stored.why_not})", "one")
    path = file_in(folder, stored.file, RunFolderError)
    data = read_array(path, RunFolderError, kinds="u", ndim=1)
    nbytes = stored.dtype.nbytes * int(np.prod(stored.shape, dtype=np.int64))
    if data.dtype != np.uint8 or data.size != nbytes:
        raise RunFolderError(str(path), f"{data.size} bytes", f"the {nbytes} of {stored.dtype} {stored.shape}")
    return data.view(numpy_dtype(stored.dtype)).reshape(stored.shape)


def _dtype_of(each: Captured) -> DType:
    if each.value is not None:
        return dtype_of(each.value.dtype)
    recipe = each.capture.recipe
    return each.capture.places[0].dtype if recipe is None else recipe.dtype


def captures_of(folder: Path) -> list[StoredCapture]:
    """Returns the captures of the run in *folder*, in the order of the kernels' calls.

    Raises RunFolderError for a folder without captures, and for one whose captures are not as the run wrote them.
    """
    run = read_one_run(folder)
    names = [name for name in run.files if name.startswith(f"{CAPTURES}/")]
    if f"{CAPTURES}/{INDEX}" not in names:
        got = "no captured values" if run.keep.data else f"no captured values ({run.keep.why})"
        fix = 'call tl.capture("name", x) in the kernel, and keep the data'
        raise RunFolderError(str(folder), got, "some", fix)
    check_written(folder, run, names)
    return load_index(folder / CAPTURES)


def chosen(folder: Path, found: list[StoredCapture], name: str, pe: str | None, number: int | None) -> StoredCapture:
    """Returns the capture of *found* with *name*, on *pe* (a number or an id), and with *number* where several are
    there.

    Raises RunFolderError when no capture fits, or more than one.
    """
    where = f"{folder}: capture {name!r}"
    named = [each for each in found if each.name == name]
    if not named:
        names = list(dict.fromkeys(each.name for each in found))
        raise RunFolderError(where, "no such name", f"one of {listing(names)}", did_you_mean(name, names))
    on_pe = [each for each in named if pe is None or pe in (str(each.pe), each.pe_id)]
    if not on_pe:
        pes = listing(list(dict.fromkeys(str(each.pe) for each in named)))
        raise RunFolderError(where, f"PE {pe}", f"one of the PEs that captured it: {pes}")
    left = [each for each in on_pe if number is None or each.number == number]
    if not left:
        most = max(each.number for each in on_pe)
        raise RunFolderError(where, f"number {number}", f"0 to {most}, as often as it was captured there")
    if len(left) > 1:
        several_pes = len({each.pe for each in left}) > 1
        fix = "choose one with --pe" if several_pes else "choose one with --number"
        raise RunFolderError(where, f"{len(left)} values", "one", f"{fix}; kb show {folder} lists them")
    return left[0]
