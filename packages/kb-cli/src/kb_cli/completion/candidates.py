"""The words that a kind of value may be: names of bundled files, files and folders on the disk, parameters, runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kb_cli.benchmark import bundled
from kb_cli.benchmark.workloads import workload_names
from kb_cli.completion.line import Wanted
from kb_cli.completion.parameters import parameters
from kb_cli.completion.words import COLLECTIVES, Kind

_RUNS: Final = "kb-runs"
"""The folder in which `kb run` and `kb exec` keep runs."""
_NETWORKS: Final = (".onnx", ".csv", "config.json")
"""The ends of the names of files that a package with workloads takes."""
_RUN: Final = "run.json"
"""The file that makes a folder a run."""
_FIRST_ROW: Final = "0000"
"""The folder of the first of several runs."""
_OF_PLAN: Final = ("M", "N", "K", "dtype")
"""The parameters of `kb plan gemm`, which take the values that the benchmark gemm takes."""


class Candidate(NamedTuple):
    """A word that a value may be. With `goes_on`, the word is the begin of a value, so that no blank follows."""

    word: str
    goes_on: bool = False


def candidates(wanted: Wanted, last: str) -> list[Candidate]:
    """Returns the candidates of *wanted* that begin with *last*, both behind the prefix of *wanted*, in their order."""
    if isinstance(wanted.value, tuple):
        found: Iterable[Candidate] = map(Candidate, wanted.value)
    else:
        found = _OF_KIND[wanted.value](last, wanted) if wanted.value in _OF_KIND else []
    return [each for each in dict.fromkeys(found) if each.word.startswith(last) and each.word.isprintable()]


def _benchmarks(last: str, wanted: Wanted) -> list[Candidate]:
    workloads = workload_names()
    networks = _NETWORKS if workloads else ()
    return [*map(Candidate, [*bundled.names("benchmarks"), *workloads]), *_files(last, ".py", *networks)]


def _sweeps(last: str, wanted: Wanted) -> list[Candidate]:
    return [*_benchmarks(last, wanted), *_files(last, ".yaml", ".yml")]


def _chips(last: str, wanted: Wanted) -> list[Candidate]:
    return [*map(Candidate, bundled.names("topologies")), *_files(last, ".yaml", ".yml")]


def _several_chips(last: str, wanted: Wanted) -> list[Candidate]:
    before, comma, chip = last.rpartition(",")
    return [Candidate(f"{before}{comma}{each.word}", each.goes_on) for each in _chips(chip, wanted)]


def _parameters(last: str, wanted: Wanted) -> list[Candidate]:
    return _parameter(last, _known_parameters(wanted.benchmark), several=False)


def _several_values(last: str, wanted: Wanted) -> list[Candidate]:
    return _parameter(last, _known_parameters(wanted.benchmark), several=True)


def _of_plan(last: str, wanted: Wanted) -> list[Candidate]:
    known = _known_parameters("gemm")
    return _parameter(last, {name: known.get(name, ()) for name in _OF_PLAN}, several=False)


def _parameter(last: str, known: Mapping[str, tuple[str, ...]], several: bool) -> list[Candidate]:
    name, equals, value = last.partition("=")
    if not equals:
        return [Candidate(f"{each}=", goes_on=True) for each in known]
    before, comma, _ = value.rpartition(",") if several else ("", "", value)
    return [Candidate(f"{name}={before}{comma}{each}") for each in known.get(name, ())]


def _known_parameters(benchmark: str) -> Mapping[str, tuple[str, ...]]:
    named = bundled.benchmark(f"{benchmark}.py")
    return parameters(named if named is not None else Path(benchmark)) if benchmark else {}


def _runs(last: str, wanted: Wanted) -> list[Candidate]:
    """Returns folders of runs, and folders that may have some inside. Runs of kb-runs are there before a `/` is."""
    ahead = _folders(f"{_RUNS}/") if _RUNS.startswith(last) else []
    return [each for each in (*ahead, *_folders(last)) if each.word != f"{_RUNS}/" or not ahead]


def _folders(last: str) -> list[Candidate]:
    """Returns the folders that begin with *last*. A run ends a word, and any other folder goes on with `/`. So does a
    folder of several runs, because its rows are runs.
    """
    paths = [path for path, is_folder in _entries(last) if is_folder]
    return [Candidate(path) if _is_one_run(path) else Candidate(f"{path}/", goes_on=True) for path in paths]


def _is_one_run(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, _RUN)) and not os.path.isdir(os.path.join(folder, _FIRST_ROW))


def _files(last: str, *endings: str) -> list[Candidate]:
    """Returns the files of *endings* that begin with *last*, and the folders in which such files may be."""
    return [
        Candidate(f"{path}/", goes_on=True) if is_folder else Candidate(path)
        for path, is_folder in _entries(last)
        if is_folder or path.endswith(endings)
    ]


def _entries(last: str) -> list[tuple[str, bool]]:
    """Returns (path, whether it is a folder) of all entries that begin with *last*, by name; hidden ones if asked."""
    folder, slash, begin = last.rpartition("/")
    found: list[tuple[str, bool]] = []
    with suppress(OSError, ValueError), os.scandir(f"{folder}{slash}" or ".") as entries:
        named = (each for each in entries if each.name.startswith(begin or ""))
        shown = (each for each in named if begin or not each.name.startswith("."))
        found.extend((f"{folder}{slash}{each.name}", each.is_dir()) for each in shown)
    return sorted(found)


def _of_files(*endings: str) -> Callable[[str, Wanted], list[Candidate]]:
    return lambda last, wanted: _files(last, *endings)


_OF_KIND: Final[Mapping[Kind, Callable[[str, Wanted], list[Candidate]]]] = {
    Kind.BENCHMARK: _benchmarks,
    Kind.CHIP: _chips,
    Kind.CHIPS: _several_chips,
    Kind.SWEEP: _sweeps,
    Kind.PARAMETER: _parameters,
    Kind.PARAMETERS: _several_values,
    Kind.PRODUCT: _of_plan,
    Kind.COLLECTIVE: lambda last, wanted: [Candidate(each) for each in COLLECTIVES],
    Kind.RUN: _runs,
    Kind.CAPSULE: _of_files(".kbrun"),
    Kind.SCRIPT: _of_files(".py"),
}
