"""Chooses the check of outputs: each element, or a sample of products whose factors the benchmark states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from kb_cli.benchmark.code.author_results import check_array, check_names
from kb_cli.benchmark.code.user_code import user_code
from kb_cli.benchmark.expected import ExpectedProduct
from kb_cli.benchmark.run_records import CheckMode
from kb_cli.benchmark.setup import Setup
from kb_dataexec.verify import why_not_sampled
from kb_engine import Arrays, Tensor
from kb_messages import BenchmarkError

SAMPLED_ABOVE: int = 1 << 37
"""The FLOPs above which `auto` samples: a product of 4096 x 4096 x 4096. The check in full, a product in f64 and a
comparison of all elements, then takes more time than the rest of a run of 8 PEs. It finds errors of the last bits of
single elements, and a lost or wrong tile makes larger errors."""

Factors = dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]]
"""The two factors of each output that is a product."""


def factors_of(setup: Setup, inputs: Arrays, flops: int) -> Factors:
    """Returns the factors of the outputs to sample; {} for a run whose outputs are checked in full, or not at all, and
    for a workload, each of whose outputs has factors of its own.

    Raises BenchmarkError for a wrong result of `products()`, and where a sample was asked for and no factors are
    stated.
    """
    wanted = setup.check is CheckMode.SAMPLE or (setup.check is CheckMode.AUTO and flops > SAMPLED_ABOVE)
    if not setup.checks or not wanted or setup.workload is not None:
        return {}
    with user_code(setup.loaded.path, "products()"):
        answer: Any = setup.loaded.bench.products(setup.params, inputs)
    if not isinstance(answer, dict):
        raise setup.error("products", type(answer).__name__, "a dict of the two factors by output")
    check_names(setup.place("products"), answer)
    found = {name: _checked(setup, name, pair) for name, pair in answer.items()}
    if not found and setup.check is CheckMode.SAMPLE:
        raise _refused(setup, "a benchmark that states no products()")
    return found


def sampled_outputs(setup: Setup, factors: Factors, outputs: Mapping[str, Tensor]) -> dict[str, ExpectedProduct] | None:
    """Returns the expected products of *outputs*; None where they have to be checked in full.

    Raises BenchmarkError for factors that do not fit an output, and where a sample was asked for and cannot be taken.
    """
    unknown = [name for name in factors if name not in outputs]
    if unknown:
        raise setup.error("products", f"an output {unknown[0]!r}", f"some of {list(outputs)}")
    if not factors:
        return None
    why = _why_not(factors, outputs)
    if why is None:
        return {name: ExpectedProduct(tensor, *factors[name], setup.seed) for name, tensor in outputs.items()}
    if setup.check is CheckMode.SAMPLE:
        raise _refused(setup, why)
    return None


def _why_not(factors: Factors, outputs: Mapping[str, Tensor]) -> str | None:
    for name, tensor in outputs.items():
        if name not in factors:
            return f"an output {name!r} of which products() says nothing"
        a, b = factors[name]
        if tensor.shape != (len(a), b.shape[1]):
            return f"factors {a.shape} and {b.shape} for {name} of shape {tensor.shape}"
        why = why_not_sampled(a, b, tensor.dtype)
        if why is not None:
            return why
    return None


def _checked(setup: Setup, name: str, pair: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise setup.error("products", f"{type(pair).__name__} for {name}", "a tuple of two matrices, A and B")
    a, b = (check_array(setup.place("products"), name, each) for each in pair)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise setup.error("products", f"shapes {a.shape} and {b.shape} for {name}", "(M, K) and (K, N)")
    return a, b


def _refused(setup: Setup, got: str) -> BenchmarkError:
    return BenchmarkError(f"{setup.loaded.name}: a check by sample", got, "outputs that are products", "check in full")
