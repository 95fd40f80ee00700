"""`run`: executes a log, then writes its outputs or compares them with references."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from msgspec import Struct

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.backends import load_backend
from kb_dataexec.cli.inputs import initial_memory
from kb_dataexec.cli.output import Progress, counted, emit, emit_json
from kb_dataexec.cli.outputs import Output, parse_outputs
from kb_dataexec.execute.executor import Executor
from kb_dataexec.logfile import OpLog, read_log
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.verify.lengths import sum_lengths
from kb_dataexec.verify.op_check import debug
from kb_dataexec.verify.outputs import compare_output, read_output
from kb_dataexec.verify.roundings import Rounding, coarsest_roundings
from kb_dataexec.verify.tolerance import default_tolerance
from kb_messages import DType, KbError

_ONLY_OF_ML_DTYPES = (DType.BF16, DType.F8E4M3, DType.F8E5M2)
"""Types whose `.npy` files no reader supports. f32 holds their values."""


class OutputResult(Struct, frozen=True, kw_only=True):
    """One output, as `--json` prints it. `ok` is None without a reference."""

    name: str
    ok: bool | None
    n_elements: int
    n_wrong: int | None
    max_abs_err: float | None
    text: str
    origin: str | None = None


class RunReport(Struct, frozen=True, kw_only=True):
    """The whole run, as `--json` prints it.

    `refusal` is the error that stopped the execution. `wrong_op` is the wrong op of debug mode.
    """

    log: str
    complete: bool
    records: int
    ok: bool
    refusal: str | None
    wrong_op: str | None
    outputs: list[OutputResult]


def run(options: argparse.Namespace) -> int:
    """Runs `run`. Returns exit code 0, or 1 when an output is wrong or the log cannot be executed."""
    outputs = parse_outputs(options.output, options.reference, options.allowed)
    log = read_log(options.log, options.prefix)
    report = _execute(options, log, outputs)
    if options.json:
        emit_json(report)
    else:
        emit(_lines(report))
    return 0 if report.ok else 1


def _execute(options: argparse.Namespace, log: OpLog, outputs: list[Output]) -> RunReport:
    initial = initial_memory(options.memory, options.input, log)
    backend, progress = load_backend(options.backend, options.device), Progress()
    wrong = refusal = None
    results: list[OutputResult] = []
    try:
        if options.debug:
            found = debug(log, initial, backend, progress)
            memory, wrong = found.memory, found.wrong
        else:
            memory = Executor(log, initial, options.mode, backend).run(progress)
    except KbError as error:
        refusal = str(error)
    else:
        if wrong is None:
            lengths = _lengths(options.length, log, outputs)
            results = [
                _result(log, memory, output, options.out, length, rounding)
                for output, length, rounding in zip(outputs, lengths, _roundings(log, outputs), strict=True)
            ]
        if options.save is not None:
            memory.save(options.save)
    return RunReport(
        log=str(options.log),
        complete=log.is_complete,
        records=log.n_ops,
        ok=refusal is None and wrong is None and all(result.ok is not False for result in results),
        refusal=refusal,
        wrong_op=None if wrong is None else str(wrong),
        outputs=results,
    )


def _lengths(stated: int | None, log: OpLog, outputs: list[Output]) -> list[int]:
    """The terms of the sums behind each output; only default tolerances need them."""
    if stated or all(output.reference is None or output.allowed is not None for output in outputs):
        return [stated or 1] * len(outputs)
    return sum_lengths(log, [[output.rectangle] for output in outputs])


def _roundings(log: OpLog, outputs: list[Output]) -> list[Rounding | None]:
    """The coarsest rounding behind each output; only default tolerances need them."""
    if all(output.reference is None or output.allowed is not None for output in outputs):
        return [None] * len(outputs)
    return coarsest_roundings(log, [[output.rectangle] for output in outputs], [output.dtype for output in outputs])


def _result(
    log: OpLog, memory: MemoryStore, output: Output, out: Path | None, length: int, rounding: Rounding | None
) -> OutputResult:
    n_elements = output.rows * output.cols
    try:
        got = read_output(log, memory, output)
    except StoreError as error:
        text = f"{output.name}: {error}"
        return OutputResult(
            name=output.name, ok=False, n_elements=n_elements, n_wrong=None, max_abs_err=None, text=text
        )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        np.save(out / f"{output.name}.npy", got.astype(np.float32) if output.dtype in _ONLY_OF_ML_DTYPES else got)
    if output.reference is None:
        text = f"{output.name}: {_range(got)}"
        return OutputResult(name=output.name, ok=None, n_elements=n_elements, n_wrong=None, max_abs_err=None, text=text)
    allowed = output.allowed
    if allowed is None:
        dtype = output.dtype if rounding is None else rounding.dtype
        allowed = default_tolerance(output.reference, dtype, length)
    found, origin = compare_output(log, output.name, output, got, output.reference, allowed)
    by_default = "" if found.ok or output.allowed is not None else f"; {_of_default(output.name, length, rounding)}"
    return OutputResult(
        name=output.name,
        ok=found.ok,
        n_elements=n_elements,
        n_wrong=found.n_wrong,
        max_abs_err=found.max_abs_err if math.isfinite(found.max_abs_err) else None,
        text=f"{found}{by_default}",
        origin=None if origin is None else str(origin),
    )


def _of_default(name: str, length: int, rounding: Rounding | None) -> str:
    terms = "1 term" if length == 1 else f"{length} terms"
    kind = "" if rounding is None else f" of {rounding},"
    return f"that is the default tolerance{kind} for sums of {terms}; state another with --allowed {name}=FILE.npy"


def _range(got: Array) -> str:
    values = got.astype(np.float64)
    return f"{got.shape[0]} x {got.shape[1]} elements from {values.min():.6g} to {values.max():.6g}, not compared"


def _lines(report: RunReport) -> list[str]:
    verdict = "ok" if report.ok else "FAILED"
    cut = "" if report.complete else " of a log that was cut off"
    lines = [f"{report.log}: {verdict}, {counted(report.records, 'record')}{cut}"]
    lines += [f"  {text}" for text in (report.refusal, report.wrong_op) if text is not None]
    for result in report.outputs:
        lines += [f"  {result.text}", *([f"    that element: {result.origin}"] if result.origin else [])]
    return lines
