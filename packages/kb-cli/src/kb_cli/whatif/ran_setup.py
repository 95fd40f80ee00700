"""The setup of a finished run, from its folder: the same benchmark, parameters, seed and chip.

Reading it runs the benchmark's code. A bundled benchmark is run from the installed file, and no code of the folder is.
"""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from kb_cli.benchmark import bundled
from kb_cli.benchmark.author_calls import check_capacity, inputs_of
from kb_cli.benchmark.call_benchmark import CallBenchmark
from kb_cli.benchmark.code.local_imports import import_from
from kb_cli.benchmark.kernel_source import MOST_NBYTES
from kb_cli.benchmark.load import LoadedBenchmark, execute_source, load_source
from kb_cli.benchmark.run_records import RecordedCall, repeated_call
from kb_cli.benchmark.scripts import ScriptBenchmark
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.field_values import BadValue, value_of
from kb_cli.benchmark.values.params import params_code
from kb_cli.run.base.files import BENCH, BESIDE, INPUTS, RUN, RunFolderError
from kb_cli.run.records.data import load_inputs
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.run_chip import chip_of
from kb_cli.run.records.run_json import RunJson, read_one_run
from kb_cli.run.simulation.simulate import array_sha256
from kb_dataexec.files import file_in, read_bytes


class RanSetup(NamedTuple):
    """A run folder and the setup that repeats its run, without log and data."""

    folder: Path
    run: RunJson
    setup: Setup


def read_setup(folder: Path, only_bundled: bool = False) -> RanSetup:
    """Returns the setup of the run in *folder*. Its benchmark is imported, and its inputs are made once and compared.

    Raises RunFolderError for a folder that is none of one run, or whose files are not as the run wrote them, and for
    inputs that differ from the run's. With *only_bundled*, a benchmark that does not come with kb is refused before it
    is imported. Raises KbErrors for an exception in the benchmark's code, and for sizes that no memory holds, before
    inputs of them are made.
    """
    run = read_one_run(folder)
    inputs = (name for name in run.files if name.startswith(f"{INPUTS}/"))
    beside = {f"{BESIDE}/{file}": sha256 for file, sha256 in run.benchmark.beside.items()}
    check_written(folder, run, (BENCH, *inputs, *beside))
    if wrong := next((file for file, sha256 in beside.items() if run.files[file].sha256 != sha256), None):
        raise RunFolderError(str(folder / RUN), f"two hashes of {wrong}", "one")
    topology = chip_of(folder, run)
    name = run.benchmark.file
    if Path(name).name != name or not name.isprintable():
        raise RunFolderError(str(folder / RUN), f"the benchmark file {name[:80]!r}", "the name of a file")
    source = read_bytes(file_in(folder, BENCH, RunFolderError), RunFolderError, MOST_NBYTES)
    installed = bundled.shipped(name, source)
    if only_bundled and (installed is None or run.call is not None or run.script is not None):
        raise RunFolderError(str(folder / BENCH), "a benchmark of its own", "one that comes with kb")
    path = installed or folder.resolve() / name
    if installed is None and beside:
        path = folder.resolve() / BESIDE / name  # kernel lines are relative to the folder of these files
        import_from(path.parent, run.benchmark.beside)
    lines = source.decode("utf-8", "replace").splitlines(keepends=True)
    linecache.cache[str(path)] = (len(source), None, lines, str(path))  # kernel lines and frames look there
    if run.script is not None:
        bench = ScriptBenchmark(run.script, run.params)
        loaded = LoadedBenchmark(run.benchmark.name, path, source, bench, script=run.script)
        params = bench.arguments
    elif run.call is not None:
        loaded, params = _repeated(folder, run, run.call, path, source)
    else:
        loaded = load_source(path, source)._replace(beside=_beside(folder, run))
        params = _params(loaded.bench.Params, run.params, str(folder / RUN))
    setup = Setup(loaded, params, topology, run.seed, verify=False, log=False)
    check_capacity(setup)
    found = {key: array_sha256(array) for key, array in inputs_of(setup).items()}
    if found != run.inputs:
        got = "inputs with other bytes than in the run"
        fix = "use the versions of numpy and of the benchmark's other files with which the run was made"
        raise RunFolderError(str(folder), got, "the same ones, which the benchmark makes from the seed", fix)
    return RanSetup(folder, run, setup)


def _beside(folder: Path, run: RunJson) -> dict[str, bytes]:
    names = run.benchmark.beside
    return {name: read_bytes(file_in(folder / BESIDE, name, RunFolderError), RunFolderError) for name in names}


def _repeated(
    folder: Path, run: RunJson, record: RecordedCall, path: Path, source: bytes
) -> tuple[LoadedBenchmark, Any]:
    """Returns the call of *run*, and its arguments as parameters, with the kernel of *source* and the inputs of the
    folder.

    Raises RunFolderError for a call that its folder alone cannot repeat.
    """
    if record.why_not:
        fix = "run a kernel of the top level of a Python file, as the file is, with tensors, numbers and texts"
        raise RunFolderError(str(folder), f"a run of {record.why_not}", "a call that its folder can repeat", fix)
    if not run.keep.data:
        raise RunFolderError(str(folder), f"no inputs ({run.keep.why})", "them", "run again and keep all data")
    kernel = vars(execute_source(path, source)).get(record.kernel)
    if not callable(kernel):
        raise RunFolderError(str(folder / BENCH), f"no kernel {record.kernel[:80]}", "the kernel of the run")
    inputs = load_inputs(folder / INPUTS, record.input_forms)
    bench = CallBenchmark(repeated_call(record, kernel, inputs))
    loaded = LoadedBenchmark(run.benchmark.name, path, source, bench, record, beside=_beside(folder, run))
    return loaded, bench.arguments


def _params(params_type: type[Struct], shown: dict[str, Any], where: str) -> Any:
    """Returns the *params_type* with the values *shown*, the parameters as a run folder has them."""
    types = {field.encode_name: field.type for field in fields(params_type)}
    if unknown := [name for name in shown if name not in types]:
        raise RunFolderError(where, f"the parameter {unknown[0][:80]!r}", "the parameters of the benchmark")
    with params_code(params_type):
        try:
            values = {name: _value(value, types[name]) for name, value in shown.items()}
            return msgspec.convert(values, params_type)
        except (msgspec.ValidationError, BadValue) as error:
            why = f"got {error.got}, needs {error.needs}" if isinstance(error, BadValue) else str(error)
            raise RunFolderError(
                where, f"parameters that do not fit ({why})", "the parameters of the benchmark"
            ) from None


def _value(value: Any, type_: Any) -> Any:
    """Returns a parameter from JSON as a value of *type_*. Types that JSON lacks are stored as the texts that `-p`
    takes.
    """
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError:
        if isinstance(value, str):
            return value_of(value, type_)
        raise
