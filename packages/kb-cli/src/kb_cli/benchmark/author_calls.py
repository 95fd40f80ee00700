"""Calls of the methods that a benchmark's author wrote. Each result is checked at once, so errors name the method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.benchmark.code.author_results import MOST_FLOPS, check_array, check_names, checked_count, checked_tolerance
from kb_cli.benchmark.code.machine_memory import limited_memory
from kb_cli.benchmark.code.user_code import user_code
from kb_cli.benchmark.expected import Expected
from kb_cli.benchmark.setup import Setup
from kb_dataexec import default_tolerance
from kb_dataexec.files import available_nbytes
from kb_dataexec.verify import Rounding
from kb_engine import Host, Tensor, WorkloadStep
from kb_messages import BenchmarkError, MemorySpace

Arrays = dict[str, npt.NDArray[Any]]


class Behind(NamedTuple):
    """The ops behind an output: the terms of the longest sum, and the coarsest rounding, None for that of its dtype."""

    terms: int
    rounding: Rounding | None = None


BehindOutputs = Callable[[Mapping[str, Tensor]], Mapping[str, Behind]]
"""Returns what is behind each output. It is called only where a default needs it."""


def inputs_of(setup: Setup) -> Arrays:
    """Returns the input arrays, from a generator seeded with the run's seed. Raises BenchmarkError for any other
    result.
    """
    rng = np.random.Generator(np.random.PCG64(setup.seed))
    with user_code(setup.loaded.path, "inputs()"), limited_memory():
        inputs: Any = setup.loaded.bench.inputs(setup.params, rng)
    if not isinstance(inputs, dict):
        raise setup.error("inputs", type(inputs).__name__, "a dict of numpy arrays")
    check_names(setup.place("inputs"), inputs)
    return {name: check_array(setup.place("inputs"), name, array) for name, array in inputs.items()}


def prepare(setup: Setup) -> None:
    """Has a workload make its ops for the chip; any other benchmark has nothing to prepare."""
    if setup.workload is not None:
        is_authors = setup.loaded.path.is_file()  # a package makes the file of a model that a user names
        with user_code(setup.loaded.path, "prepare()", is_authors), limited_memory():
            setup.workload.prepare(setup.params, setup.topology, setup.seed)


def step_of(setup: Setup) -> WorkloadStep | None:
    """Returns the work of the whole model of a workload; None for any other benchmark, and for one that tells none.

    Raises BenchmarkError for any other result.
    """
    if setup.workload is None:
        return None
    with user_code(setup.loaded.path, "step()"):
        answer: Any = setup.workload.step(setup.params)
    if answer is not None and (not isinstance(answer, WorkloadStep) or answer.items < 1):
        got = f"{answer.items} items" if isinstance(answer, WorkloadStep) else type(answer).__name__
        raise setup.error("step", got, "a WorkloadStep of 1 item or more, or None")
    return answer


def launch(setup: Setup, host: Host, inputs: Arrays) -> dict[str, Tensor]:
    """Runs the benchmark's launches, and returns the output tensors. Raises BenchmarkError for any other result."""
    with user_code(setup.loaded.path, "launch()"):
        outputs: Any = setup.loaded.bench.launch(host, setup.params, inputs)
        host.synchronize()  # calls of streams that nobody waited for
    if not isinstance(outputs, dict) or not all(isinstance(tensor, Tensor) for tensor in outputs.values()):
        raise setup.error("launch", type(outputs).__name__, "a dict of the output tensors by name")
    has_outputs = setup.loaded.call is None and setup.loaded.script is None and setup.workload is None
    if not outputs and has_outputs:
        raise setup.error("launch", "no outputs", "at least one")
    check_names(setup.place("launch"), outputs)
    if not host.launches:
        raise setup.error("launch", "no kernel launched", "a call of host.launch")
    return dict(outputs)


def flops_of(setup: Setup) -> int:
    """Returns the number of operations that the algorithm needs. Raises BenchmarkError for any other result."""
    with user_code(setup.loaded.path, "flops()"):
        answer: Any = setup.loaded.bench.flops(setup.params)
    return checked_count(setup.place("flops"), answer, MOST_FLOPS)


def expected_outputs(
    setup: Setup, inputs: Arrays, outputs: dict[str, Tensor], behind: BehindOutputs
) -> dict[str, Expected]:
    """Returns the reference and the allowed error of every output.

    The default error is the one for the terms and the rounding that *behind* returns. Raises BenchmarkError for wrong
    names, shapes or numbers.
    """
    with user_code(setup.loaded.path, "reference()"), limited_memory():
        answer: Any = setup.loaded.bench.reference(setup.params, inputs)
    references = _checked_references(setup, answer, outputs)
    with user_code(setup.loaded.path, "tolerance()"), limited_memory():
        tolerance: Any = setup.loaded.bench.tolerance(setup.params, inputs, references)
    return _expected(setup, outputs, references, tolerance, behind)


def stated_outputs(
    setup: Setup, outputs: dict[str, Tensor], reference: Any, tolerance: Any, behind: BehindOutputs
) -> dict[str, Expected]:
    """Returns the reference and the allowed error of every output, from the caller's *reference* and *tolerance* by
    output.

    Raises BenchmarkError for wrong names, shapes or numbers.
    """
    return _expected(setup, outputs, _checked_references(setup, reference, outputs), tolerance, behind)


def _expected(
    setup: Setup, outputs: dict[str, Tensor], references: Arrays, tolerance: Any, behind: BehindOutputs
) -> dict[str, Expected]:
    stated = _arrays(setup, "tolerance", tolerance)
    for name, error in stated.items():
        if name not in outputs:
            raise setup.error("tolerance", f"an output {name!r}", f"some of {list(outputs)}")
        if not _broadcasts(error.shape, outputs[name].shape):
            raise setup.error("tolerance", f"shape {error.shape} for {name}", f"{outputs[name].shape} or one number")
    found = behind(outputs) if outputs.keys() - stated.keys() else {}
    expected: dict[str, Expected] = {}
    for name, tensor in outputs.items():
        reference = references[name]
        default = None if name in stated else found[name]
        rounding = None if default is None else default.rounding
        dtype = tensor.dtype if rounding is None else rounding.dtype
        error = stated[name] if default is None else default_tolerance(reference, dtype, default.terms)
        allowed = checked_tolerance(setup.place("tolerance"), name, error, reference)
        expected[name] = Expected(tensor, reference, allowed, None if default is None else default.terms, rounding)
    return expected


def _checked_references(setup: Setup, answer: Any, outputs: dict[str, Tensor]) -> Arrays:
    references = _arrays(setup, "reference", answer)
    if references.keys() != outputs.keys():
        raise setup.error("reference", f"outputs {list(references)}", f"the outputs of launch(), {list(outputs)}")
    for name, tensor in outputs.items():
        check_array(setup.place("reference"), name, references[name])
        if references[name].shape != tensor.shape:
            raise setup.error("reference", f"shape {references[name].shape} for {name}", f"{tensor.shape}")
    return references


def _arrays(setup: Setup, method: str, answer: Any) -> Arrays:
    """Returns the *answer* of *method*, numbers or arrays by output, as arrays."""
    if not isinstance(answer, dict):
        raise setup.error(method, type(answer).__name__, "a dict of arrays by output")
    check_names(setup.place(method), answer)
    masked = next((name for name, value in answer.items() if isinstance(value, np.ma.MaskedArray)), None)
    if masked is not None:
        raise setup.error(method, f"a masked array for {masked}", "an array without a mask")
    with user_code(setup.loaded.path, f"{method}()"):
        return {name: np.asarray(value) for name, value in answer.items()}


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


_SPACES = (MemorySpace.HBM, MemorySpace.SRAM, MemorySpace.TCM)


def check_capacity(setup: Setup) -> None:
    """Raises BenchmarkError when the benchmark's `footprint` is larger than the chip's memories or this machine's
    memory.

    A run that passes may still be refused at one of its tensors, when one memory is full.
    """
    with user_code(setup.loaded.path, "footprint()"):
        answer: Any = setup.loaded.bench.footprint(setup.params)
    needed = checked_count(setup.place("footprint"), answer)
    regions = setup.topology.address_map.regions
    limits = {
        "all memories of the chip hold": sum(each.nbytes for each in regions if each.space in _SPACES),
        "this machine has left": available_nbytes(),
    }
    for what, limit in limits.items():
        if limit is not None and needed > limit:
            unit, nbytes = ("MiB", 1 << 20) if limit >= 1 << 20 else ("B", 1)
            got = f"{-(-needed // nbytes):,} {unit} of tensors"  # rounded up, and the limit down, so that they differ
            needs = f"at most the {limit // nbytes:,} {unit} that {what}"
            raise BenchmarkError(setup.where, got, needs, "choose smaller sizes with -p or --shapes")
