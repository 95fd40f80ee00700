"""Options of `kb run` that set parameters of a workload, such as a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

import click
from msgspec.structs import fields

from kb_cli.benchmark.load import LoadedBenchmark
from kb_engine import Workload
from kb_messages import BenchmarkError
from kb_topology import listing

OPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "phase": ("PHASE", "prefill, all tokens of new sequences at once, or decode, a step of one token a sequence."),
    "tokens": ("N", "Tokens of each sequence in prefill."),
    "batch": ("N", "Sequences."),
    "context": ("N", "Keys of each sequence in decode."),
    "layers": ("N", "Blocks to simulate, which stand for all blocks of the model."),
    "map": ("AXIS=LEVEL,...", "The layout, such as heads=cube,mlp=cube,batch=sip."),
    "dtype": ("DTYPE", "The dtype of activations."),
    "weights": ("FORM", "The form of weights in memory: same, int8, int4 or fp8."),
    "paged": ("KEYS", "Keep the cache in blocks of so many keys; 0 in one piece."),
    "op": ("NAME", "Run one op alone, on random inputs."),
}
"""The options by the parameter that each sets: metavar and help."""


def workload_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to *command*, which gets the texts that the user gave as `of_workload`, by parameter."""

    @wraps(command)
    def called(**arguments: Any) -> Any:
        given = {name: arguments.pop(_argument(name)) for name in OPTIONS}
        return command(**arguments, of_workload={name: text for name, text in given.items() if text is not None})

    for name, (unit, said) in reversed([*OPTIONS.items()]):
        called = click.option(f"--{name}", _argument(name), metavar=unit, help=f"Of a workload. {said}")(called)
    return called


def _argument(name: str) -> str:
    return f"workload_{name}"


def with_workload_options(
    loaded: LoadedBenchmark, texts: Mapping[str, str], of_workload: Mapping[str, str]
) -> dict[str, str]:
    """Returns the parameters *texts* of `-p` with those of the options.

    Raises BenchmarkError for an option where *loaded* is no workload or has no such parameter, and for a parameter that
    is given twice.
    """
    known = [field.encode_name for field in fields(loaded.bench.Params)]
    for name, text in of_workload.items():
        refuse_for_benchmark(loaded, f"--{name}", f"-p sets the parameters of {loaded.name}")
        if name not in known:
            raise BenchmarkError(f"--{name}", f"{loaded.name}, which has no such parameter", f"one of {listing(known)}")
        if name in texts:
            raise BenchmarkError(f"--{name} {text}", f"-p {name}={texts[name]} too", "one of the two")
    return {**texts, **of_workload}


def refuse_for_benchmark(loaded: LoadedBenchmark, option: str, fix: str) -> None:
    """Raises BenchmarkError where *loaded* is no workload: *option* is for workloads alone."""
    if not isinstance(loaded.bench, Workload):
        needs = "a workload, such as a model that kb list names or the path of its config.json"
        raise BenchmarkError(option, f"the benchmark {loaded.name}", needs, fix)
