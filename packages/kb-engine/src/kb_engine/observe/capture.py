"""Capture: a value that a kernel names, so that users can inspect it after the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_messages import DType, Matrix, VectorProgram

_MOST_PRINTED = 64
"""Elements of an array that a print shows in full."""


class Recipe(NamedTuple):
    """How to compute a value that no command makes: a vector program with one output, and where its inputs lie."""

    program: VectorProgram
    inputs: tuple[Matrix, ...]

    @property
    def dtype(self) -> DType:
        """Element type of the value."""
        return self.program.values[self.program.outputs[0]].dtype


class Capture(Struct, frozen=True, kw_only=True, eq=False):
    """A call of `tl.capture` or `tl.print` at kernel line `line` of `program`, which runs on PE `pe_id`.

    The value has `shape`. `known` has its elements where they are known. Otherwise pass 2 computes them: they lie at
    `place` when all commands before `command_seq` have taken effect, and may be overwritten afterwards. A value that no
    command makes has no place; it follows by `recipe` from the contents of its inputs at that time. `is_print` says
    that the value is to be printed when it exists.

    A capture that `is_assertion` is the condition of a `tl.device_assert` with the message `name`. The condition does
    not have to hold where `left_out`, which broadcasts with it, is true.
    """

    name: str
    line: str
    pe_id: str
    program: int
    shape: tuple[int, ...]
    known: npt.NDArray[Any] | None
    place: Matrix | None
    command_seq: int
    is_print: bool
    recipe: Recipe | None = None
    is_assertion: bool = False
    left_out: npt.NDArray[np.bool_] | None = None

    @property
    def places(self) -> tuple[Matrix, ...]:
        """The places of the bytes from which pass 2 computes the value; none for a known value."""
        if self.known is not None:
            return ()
        if self.recipe is not None:
            return self.recipe.inputs
        assert self.place is not None, "a value that is not known lies somewhere, or is computed"
        return (self.place,)

    def value_from(self, contents: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The value of `shape`, from the *contents* of `places`."""
        from kb_dataexec.execute import evaluate_program

        if self.known is not None:
            return self.known
        found = contents[0] if self.recipe is None else evaluate_program(self.recipe.program, contents)[0]
        return found.reshape(self.shape)

    @property
    def where(self) -> str:
        """The kernel line and the PE, with which a print begins."""
        return f"{self.line} {self.pe_id}"


def shown_array(array: npt.NDArray[Any]) -> str:
    """The text of *array* in a print: one number, or rows of numbers, without the middle of long rows."""
    if array.size == 1:
        return str(array.item())
    wide = array if array.dtype.kind in "biuf" and array.dtype.itemsize > 1 else array.astype(np.float32)
    text = np.array2string(wide if array.dtype.kind != "b" else array, threshold=_MOST_PRINTED, precision=6)
    return text if "\n" not in text else f"\n{text}"
