"""`kernbench.run`: runs a kernel, or a benchmark, from a Python program."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import fields

from kb_cli.benchmark.call import Call, refuse_taken_names
from kb_cli.benchmark.call import call as new_call
from kb_cli.benchmark.call_benchmark import CallBenchmark, FunctionBenchmark
from kb_cli.benchmark.code.author_results import check_benchmark_name
from kb_cli.benchmark.code.local_imports import files_beside
from kb_cli.benchmark.kernel_source import kernel_source
from kb_cli.benchmark.load import LoadedBenchmark, load_benchmark, load_defined, refuse_during_import
from kb_cli.benchmark.run_records import CheckMode, record_call
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import as_text, build_params
from kb_cli.face.chips import Chip
from kb_cli.face.chips import chip as chip_of
from kb_cli.face.kernel_run import KernelRun
from kb_cli.run.base.result import Policy
from kb_cli.run.saving.save import run_once, run_unsaved
from kb_engine import Benchmark
from kb_engine.program import authors_traceback
from kb_messages import BenchmarkError, KbError


def run(
    kernel: Callable[..., Any] | str | type[Benchmark[Any]] | FunctionBenchmark | Call,
    *arguments: Any,
    chip: Chip = "one_cube",
    folder: str | os.PathLike[str] | None = None,
    keep: str = "auto",
    compute: bool = True,
    verify: str = "auto",
    sanitize: bool | None = None,
    seed: int = 0,
    **named: Any,
) -> KernelRun:
    """Runs *kernel* with *arguments* on *chip*, computes its results, and reports where the time went.

    The arguments are those of `kernbench.call`: numpy arrays are inputs, `kernbench.empty(shape, dtype)` is a result.
    A function whose first parameter is called `host` launches kernels itself, as often as it wants.
    In place of a kernel stands a call, or a benchmark: a name such as "gemm", the path of a file, a subclass of
    Benchmark, or a function under `@kernbench.benchmark`. *named* are then its parameters, and *seed* is the seed of
    its inputs.

    *chip* is a bundled name, the path of a YAML file, or a Topology. With *folder*, the run writes a run folder there,
    which `kb report`, `trace`, `whatif`, `compare` and `verify` take; *keep* is `auto`, `all` or `none` as for `kb
    run`, and *verify* is `auto`, `full` or `sample` as for its `--verify`. With `compute=False` the run gives times
    alone. It looks for races of programs where that costs little; with *sanitize* it looks for missing waits, leaks and
    wrapped indices too, and with `sanitize=False` for nothing.

    Raises KbErrors, whose text says what was found and what is needed: BenchmarkError for arguments that do not fit,
    KernelError for a mistake of the kernel, SimulationStuckError for a kernel that waits for ever. Their tracebacks
    have the frames of the author's files alone.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    try:
        refuse_during_import("kernbench.run")
        policy, compute = _policy(keep), _switch("compute", compute)
        sanitizes = sanitize is not None and _switch("sanitize", sanitize)
        loaded, params = _loaded(kernel, arguments, named)
        bench = loaded.bench
        has_reference = not isinstance(bench, CallBenchmark) or bench.call.reference is not None
        setup = Setup(
            loaded,
            params,
            chip_of(chip),
            _seed(seed),
            verify=compute and has_reference,
            log=True,
            sanitize=sanitizes,
            races=sanitize is None,
            compute=compute,
            check=_check(verify),
        )
        finished = run_unsaved(setup) if folder is None else run_once(setup, _path(folder), policy)
        return KernelRun(setup, finished, has_folder=folder is not None)
    except (KbError, KeyboardInterrupt) as error:
        raise error.with_traceback(authors_traceback(error)) from None


def _loaded(kernel: Any, arguments: Sequence[Any], named: dict[str, Any]) -> tuple[LoadedBenchmark, Any]:
    """Returns the benchmark to run, and its parameters."""
    if isinstance(kernel, str):
        return _with_params(load_benchmark(kernel), arguments, named)
    if inspect.isfunction(kernel):
        _refuse_topology(named, inspect.signature(kernel).parameters)
    if isinstance(kernel, FunctionBenchmark) or (isinstance(kernel, type) and issubclass(kernel, Benchmark)):
        return _with_params(load_defined(kernel), arguments, named)
    if isinstance(kernel, Call):
        if arguments or named:
            raise BenchmarkError("kernbench.run", "arguments beside a call", "the call alone", "give them to the call")
        described = kernel
    else:
        refuse_taken_names(kernel, len(arguments), run)
        described = new_call(kernel, *arguments, **named)
    if described.chosen is not None:
        fix = "put the call into a function under @kernbench.benchmark, and run the function"
        raise BenchmarkError("kernbench.run", "a call with chosen=", "a call whose arguments are known", fix)
    source, bench = kernel_source(described.kernel), CallBenchmark(described)
    name = check_benchmark_name(f"kernel {described.name}", described.name)
    record = record_call(described, source.why_not)
    beside = source.cells if source.why_not else files_beside(source.path, source.text)
    return LoadedBenchmark(name, source.path, source.text, bench, record, beside=beside), bench.arguments


def _with_params(
    loaded: LoadedBenchmark, arguments: Sequence[Any], named: dict[str, Any]
) -> tuple[LoadedBenchmark, Any]:
    """Returns *loaded* with the parameters *named*, each a value or the text that `-p` takes."""
    if arguments:
        known = ", ".join(field.encode_name for field in fields(loaded.bench.Params))
        raise BenchmarkError(loaded.name, f"{len(arguments)} arguments without names", f"parameters by name ({known})")
    _refuse_topology(named, [field.encode_name for field in fields(loaded.bench.Params)])
    return loaded, build_params(loaded.bench.Params, {name: _text(value) for name, value in named.items()})


def _refuse_topology(named: Mapping[str, Any], known: Container[str]) -> None:
    """Refuses `topology=` where it is no parameter: `kb run` has an option of that name, and kernbench.run calls it
    `chip`.
    """
    if "topology" in named and "topology" not in known:
        raise BenchmarkError("kernbench.run", "topology=", "chip=", f"write chip={named['topology']!r}")


def _text(value: object) -> str:
    """Returns *value* as `-p` takes it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    shown = as_text(value)
    return "none" if shown is None else str(shown)


def _seed(seed: object) -> int:
    """Returns *seed* as an int, which numpy's generators and run.json take."""
    try:
        number = -1 if isinstance(seed, bool) else operator.index(seed)  # type: ignore[arg-type]  # it raises TypeError
    except TypeError:
        number = -1
    if number < 0:
        raise BenchmarkError("seed", repr(seed), "an integer of 0 or more")
    return number


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise BenchmarkError(name, repr(value), "True or False")
    return bool(value)


def _path(folder: object) -> Path:
    if not isinstance(folder, (str, os.PathLike)):
        raise BenchmarkError("folder", repr(folder), "the path of a folder for runs")
    return Path(folder)


def _check(verify: str) -> CheckMode:
    if verify not in list(CheckMode):
        raise BenchmarkError("verify", repr(verify), f"one of {', '.join(CheckMode)}")
    return CheckMode(verify)


def _policy(keep: str) -> Policy:
    if keep not in list(Policy):
        raise BenchmarkError("keep", repr(keep), f"one of {', '.join(Policy)}")
    return Policy(keep)
