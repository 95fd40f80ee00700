"""The verdict on a run: pass 2 executes the log, and each output is compared with the benchmark's expectation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from kb_cli.benchmark.author_calls import Behind
from kb_cli.benchmark.expected import (
    AnyExpected,
    AnyOpExpected,
    Expected,
    ExpectedProduct,
    OpExpected,
    OpProduct,
    OutputTensor,
)
from kb_cli.run.base.progress import PASS_2, VERIFY, RunProgress
from kb_cli.run.base.result import OutputCheck, WrongElements
from kb_dataexec import Executor, MemoryStore, OpLog
from kb_dataexec.analysis import Numbering, Origin, ProgramName, Programs
from kb_dataexec.execute import Look
from kb_dataexec.log import LogParts
from kb_dataexec.verify import (
    Comparison,
    ProductSample,
    StoredArray,
    coarsest_roundings,
    compare_output,
    debug,
    read_output,
    sample_output,
    sum_lengths,
)
from kb_engine import Tensor
from kb_messages import DType, KbError

Seen = Sequence[npt.NDArray[Any] | KbError]
"""The values that looks at memory gave: an array each, or the error that explains why there is none."""


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether all outputs agree with the benchmark. `refusal` says why the log could not be executed, and is None
    otherwise.
    """

    ok: bool
    outputs: list[OutputCheck]
    refusal: str | None = None

    @property
    def max_abs_err(self) -> float | None:
        """The largest error over all outputs, or None when no output could be compared."""
        errors = [check.max_abs_err for check in self.outputs if check.max_abs_err is not None]
        return max(errors, default=None)


def execute(log: LogParts, memory: MemoryStore, progress: RunProgress) -> MemoryStore | KbError:
    """Returns the memory after *log*, or the error that stopped its execution."""
    return execute_and_look(log, memory, (), progress)[0]


def execute_and_look(
    log: LogParts, memory: MemoryStore, looks: Sequence[Look], progress: RunProgress
) -> tuple[MemoryStore | KbError, Seen]:
    """Executes *log*, and returns the memory after it and the value of each of *looks*. After an error, all are the
    error.
    """
    progress.begin(PASS_2)
    try:
        return Executor(log, memory).run_and_look(looks, progress.count)
    except KbError as error:
        return error, [error] * len(looks)


def execute_debugging(log: LogParts, memory: MemoryStore, progress: RunProgress) -> MemoryStore | KbError:
    """Executes *log*, and compares each op with float64. The first wrong op stops the execution with an error."""
    progress.begin(PASS_2, "op by op")
    try:
        found = debug(log, memory, progress=progress.count)
    except KbError as error:
        return error
    if found.wrong is None:
        return found.memory
    wrong = found.wrong
    return KbError(wrong.where, f"a wrong result ({wrong.comparison})", "that of float64, within the op's own rounding")


class Writers(NamedTuple):
    """The programs of a run, which wrote its outputs.

    `programs` finds them in the log; it is called if an output is wrong. `grids` has the numbering of the programs of
    each launch, and `arguments` the parameter of the kernel for each output, by its name, where that is known.
    """

    programs: Callable[[], Programs] = Programs
    grids: Sequence[Numbering] = ()
    arguments: Mapping[str, str] = {}


def judge(
    log: LogParts,
    memory: MemoryStore | KbError,
    expected: Mapping[str, AnyExpected | AnyOpExpected],
    progress: RunProgress,
    writers: Writers | None = None,
) -> Verdict:
    """Compares every output in *memory*, the memory after *log*, with the benchmark's expectation.

    A wrong output names the program of *writers* that wrote its worst element.
    """
    if isinstance(memory, KbError):
        return refused(str(memory))
    outputs = []
    for name, output in expected.items():
        progress.begin(VERIFY, f"comparing {name}")
        if isinstance(output, OpExpected | OpProduct):
            stored = Output(name, output.stored, output.stored.shape, output.stored.dtype)
        else:
            stored = Output(name, OutputTensor(output.tensor), output.tensor.shape, output.tensor.dtype)
        outputs.append(check_output(log, memory, stored, output, writers or Writers()))
    return Verdict(ok=all(check.ok for check in outputs), outputs=outputs)


def refused(why: str) -> Verdict:
    """Returns the verdict on a run whose data cannot be computed."""
    return Verdict(ok=False, outputs=[], refusal=why)


def terms_behind(log: OpLog, tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Returns the number of terms of the longest sum of *log* behind each of *tensors*."""
    rectangles = [[matrix.rectangle for _, matrix in tensor.every_block()] for tensor in tensors.values()]
    return dict(zip(tensors, sum_lengths(log, rectangles), strict=True))


def behind_outputs(log: OpLog, tensors: Mapping[str, Tensor]) -> dict[str, Behind]:
    """Returns what the default tolerance of each of *tensors* follows from: sums and roundings of *log* behind it."""
    rectangles = [[matrix.rectangle for _, matrix in tensor.every_block()] for tensor in tensors.values()]
    roundings = coarsest_roundings(log, rectangles, [tensor.dtype for tensor in tensors.values()])
    terms = terms_behind(log, tensors)
    return {name: Behind(terms[name], rounding) for name, rounding in zip(tensors, roundings, strict=True)}


def _tolerance_used(output: AnyExpected | AnyOpExpected) -> str:
    if isinstance(output, OpExpected):
        return "the tolerance that the op states"
    if isinstance(output, ExpectedProduct | OpProduct):
        return "the tolerance of a product"
    if output.default_terms is None:
        return "the tolerance that the benchmark or the caller states"
    terms = "1 term" if output.default_terms == 1 else f"{output.default_terms} terms"
    kind = output.tensor.dtype if output.rounding is None else f"{output.rounding},"
    default = f"the default tolerance of {kind} for sums of {terms}"
    return f"{default}; state another with tolerance=, or in the benchmark's tolerance()"


def _wrong(found: Comparison, origin: Origin | None, writers: Writers) -> WrongElements:
    """The wrong elements of a comparison, and the record and the program behind the worst of them."""
    finite = [value if math.isfinite(value) else None for value in (found.got, found.expected, found.allowed)]
    wrong = WrongElements(
        share=found.share,
        region=list(found.region),
        worst=found.worst,
        got=finite[0],
        expected=finite[1],
        allowed=finite[2],
    )
    writer = None if origin is None else origin.writer
    if writer is None:
        return wrong
    programs = writers.programs()
    row = int(programs.of_commands(np.array([writer.command_seq]))[0]) if programs.is_known else -1
    return replace(
        wrong,
        op_id=writer.op_id,
        component=writer.component,
        line=writer.line,
        program=UNSET if row < 0 else programs.name(row, writers.grids),
    )


class Output(NamedTuple):
    """An output by its name, where it lies, and its shape and dtype."""

    name: str
    stored: StoredArray
    shape: tuple[int, ...]
    dtype: DType


def check_output(
    log: LogParts, memory: MemoryStore, output: Output, expected: AnyExpected | AnyOpExpected, writers: Writers
) -> OutputCheck:
    """Compares *output* in *memory* with what is *expected*. A wrong output names the program of *writers*."""
    name = output.name
    try:
        got = read_output(log, memory, output.stored)
    except KbError as error:
        n_elements, text = int(np.prod(output.shape)), f"{name}: {error}"
        return OutputCheck(name=name, ok=False, n_elements=n_elements, n_wrong=n_elements, max_abs_err=None, text=text)
    sample: ProductSample | UnsetType = UNSET
    if isinstance(expected, ExpectedProduct | OpProduct):
        factors = expected.a, expected.b
        (found, origin), sample = sample_output(log, name, output.stored, got, factors, output.dtype, expected.seed)
    else:
        found, origin = compare_output(log, name, output.stored, got, expected.reference, expected.allowed)
    tolerance, argument = _tolerance_used(expected), writers.arguments.get(name)
    texts = [str(found), *([] if origin is None else [str(origin)])]
    wrong = UNSET if found.ok else _wrong(found, origin, writers)
    if isinstance(wrong, WrongElements):
        if isinstance(wrong.program, ProgramName):
            who = wrong.program if wrong.program.ids else f"the program on {wrong.program.pe}"
            texts.append(f"the writer is {who}{f', by its argument {argument}' if argument else ''}")
        texts.append(f"that is {tolerance}")
    elif isinstance(expected, Expected) and expected.rounding is not None:
        texts.append(f"the tolerance is that of {expected.rounding}")
    if sample is not UNSET:
        texts.append(str(sample))
    return OutputCheck(
        name=name,
        ok=found.ok,
        n_elements=found.n_elements,
        n_wrong=found.n_wrong,
        max_abs_err=found.max_abs_err,
        text="; ".join(texts),
        tolerance=tolerance,
        sample=sample,
        argument=argument or UNSET,
        wrong=wrong,
    )
