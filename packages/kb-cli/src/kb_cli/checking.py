"""Pass 2 and the verdict: what the log computes, against what the benchmark expects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_dataexec.executor import Executor
from kb_dataexec.oplog import OpLog
from kb_dataexec.store import MemoryStore
from kb_dataexec.verify import compare
from kb_engine.host import read_tensor
from kb_engine.language.tensors import Tensor
from kb_messages.errors import KbError

Progress = Callable[[int, int], None]


class Expected(NamedTuple):
    """One output: where it lies, its float64 reference, and the absolute error allowed (elementwise, or one number)."""

    tensor: Tensor
    reference: npt.NDArray[Any]
    allowed: npt.NDArray[Any]


class OutputCheck(Struct, frozen=True, kw_only=True):
    """The outcome for one output; `text` says it in a sentence. `max_abs_err` is None when it could not be read."""

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


def judge(memory: MemoryStore | KbError, expected: dict[str, Expected]) -> Verdict:
    """Compare every output in *memory* with what is expected."""
    if isinstance(memory, KbError):
        return refused(str(memory))
    outputs = [_check(name, memory, output) for name, output in expected.items()]
    return Verdict(ok=all(check.ok for check in outputs), outputs=outputs)


def refused(why: str) -> Verdict:
    """The verdict on a run whose data cannot be computed."""
    return Verdict(ok=False, outputs=[], refusal=why)


def _check(name: str, memory: MemoryStore, output: Expected) -> OutputCheck:
    try:
        got = read_tensor(memory, output.tensor)
    except KbError as error:
        n_elements = int(np.prod(output.tensor.shape))
        return OutputCheck(
            name=name, ok=False, n_elements=n_elements, n_wrong=n_elements, max_abs_err=None, text=f"{name}: {error}"
        )
    found = compare(name, got, output.reference, output.allowed)
    return OutputCheck(
        name=name,
        ok=found.ok,
        n_elements=found.n_elements,
        n_wrong=found.n_wrong,
        max_abs_err=found.max_abs_err,
        text=str(found),
    )
