"""Pass 2 and the verdict: what the log computes, against what the benchmark expects."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_dataexec import Executor, MemoryStore, OpLog, StoreError, compare
from kb_dataexec.analysis import provenance as blame
from kb_engine import Tensor, read_tensor
from kb_messages import OFFSET_BITS, OFFSET_MASK, KbError

Progress = Callable[[int, int], None]


class Expected(NamedTuple):
    """One output: where it lies, its float64 reference, and the absolute error allowed (elementwise, or one number)."""

    tensor: Tensor
    reference: npt.NDArray[Any]
    allowed: npt.NDArray[Any]


class OutputCheck(Struct, frozen=True, kw_only=True):
    """The outcome for one output; `text` says it in a sentence, and of a wrong one who wrote its worst element.

    `max_abs_err` is None when it could not be read.
    """

    name: str
    ok: bool
    n_elements: int
    n_wrong: int
    max_abs_err: float | None
    text: str


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether all outputs agree. `refusal` says why the log could not be executed, if it could not."""

    ok: bool
    outputs: list[OutputCheck]
    refusal: str | None = None

    @property
    def max_abs_err(self) -> float | None:
        """Over all outputs; None when there is none to compare."""
        errors = [check.max_abs_err for check in self.outputs if check.max_abs_err is not None]
        return max(errors, default=None)


def execute(log: OpLog, memory: MemoryStore, progress: Progress | None = None) -> MemoryStore | KbError:
    """The memory that *log* leaves behind, or why it refuses to be executed."""
    try:
        return Executor(log, memory).run(progress)
    except KbError as error:
        return error


def judge(log: OpLog, memory: MemoryStore | KbError, expected: dict[str, Expected]) -> Verdict:
    """Compare every output in *memory*, which *log* leaves behind, with what is expected."""
    if isinstance(memory, KbError):
        return refused(str(memory))
    outputs = [_check(log, name, memory, output) for name, output in expected.items()]
    return Verdict(ok=all(check.ok for check in outputs), outputs=outputs)


def execute_debugging(log: OpLog, memory: MemoryStore) -> MemoryStore | KbError:
    """As `execute`, but every op is held against float64: the error is the first one that is wrong."""
    from kb_dataexec.verify.op_check import debug

    try:
        found = debug(log, memory)
    except KbError as error:
        return error
    if found.wrong is None:
        return found.memory
    wrong = found.wrong
    return KbError(wrong.where, f"a wrong result ({wrong.comparison})", "that of float64, within the op's own rounding")


def refused(why: str) -> Verdict:
    """The verdict on a run whose data cannot be computed."""
    return Verdict(ok=False, outputs=[], refusal=why)


def _check(log: OpLog, name: str, memory: MemoryStore, output: Expected) -> OutputCheck:
    try:
        got = read_tensor(memory, output.tensor)
    except KbError as error:
        n_elements = int(np.prod(output.tensor.shape))
        text = f"{name}: {error}"
        if isinstance(error, StoreError) and error.byte is not None:
            text += f"; {blame.history(log, *error.byte, None)}"
        return OutputCheck(name=name, ok=False, n_elements=n_elements, n_wrong=n_elements, max_abs_err=None, text=text)
    found = compare(name, got, output.reference, output.allowed)
    origin = "" if found.ok else f"; {blame.origin(log, *_byte_of(output.tensor, found.worst))}"
    return OutputCheck(
        name=name,
        ok=found.ok,
        n_elements=found.n_elements,
        n_wrong=found.n_wrong,
        max_abs_err=found.max_abs_err,
        text=f"{found}{origin}",
    )


def _byte_of(tensor: Tensor, index: tuple[int, ...]) -> tuple[int, int]:
    """(owner, offset) of the first byte of an element."""
    row, col = (0, *index)[-2:]
    i, j = bisect_right(tensor.row_bounds, row) - 1, bisect_right(tensor.col_bounds, col) - 1
    block = tensor.block(i, j)
    address = block.address + (row - tensor.row_bounds[i]) * block.stride
    address += (col - tensor.col_bounds[j]) * tensor.dtype.nbytes
    return address >> OFFSET_BITS, address & OFFSET_MASK
