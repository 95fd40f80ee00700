"""The verdict on a workload: each op is compared alone, with its reference on what it read."""

from __future__ import annotations

from typing import Final

from kb_cli.benchmark.code.author_results import check_array, checked_tolerance
from kb_cli.benchmark.code.user_code import user_code
from kb_cli.benchmark.expected import AnyOpExpected, OpExpected, OpProduct, OutputParts
from kb_cli.benchmark.run_records import CheckMode
from kb_cli.benchmark.sampled import SAMPLED_ABOVE
from kb_cli.benchmark.setup import Setup
from kb_cli.run.base.progress import VERIFY, RunProgress
from kb_cli.run.base.result import OutputCheck
from kb_cli.run.simulation.verdict import Output, Verdict, Writers, check_output, refused
from kb_dataexec import MemoryStore
from kb_dataexec.log import LogParts
from kb_dataexec.verify import why_not_sampled
from kb_engine import WorkloadOutput
from kb_messages import BenchmarkError, KbError

MOST_KEPT_NBYTES: Final = 256 << 20
"""The most bytes of references that are held for the run folder. Source: assumed, as `--keep auto` keeps of a run."""


def judge_workload(
    log: LogParts, memory: MemoryStore | KbError, setup: Setup, progress: RunProgress, writers: Writers
) -> tuple[Verdict, dict[str, AnyOpExpected]]:
    """Compares every result of every op in *memory*, the memory after *log*.

    Returns the verdict with what was expected by name, for the run folder. That is empty where it takes more than
    MOST_KEPT_NBYTES, and where an op does not tell the parts of its result: one reference is held at a time then.

    Raises BenchmarkError for a reference or a tolerance of another shape than the result.
    """
    assert setup.workload is not None, "the caller looked"
    if isinstance(memory, KbError):
        return refused(str(memory)), {}
    checks: list[OutputCheck] = []
    kept: dict[str, AnyOpExpected] = {}
    left, has_parts = MOST_KEPT_NBYTES, True
    for output in setup.workload.outputs():
        progress.begin(VERIFY, f"comparing {output.name}")
        where = Output(output.name, output, output.shape, output.dtype)
        expected = _expected(setup, output, memory)
        checks.append(check_output(log, memory, where, expected, writers))
        left, has_parts = left - expected.nbytes, has_parts and bool(expected.stored.parts)
        if left >= 0 and has_parts:
            kept[output.name] = expected
        else:
            kept.clear()
    return Verdict(ok=all(check.ok for check in checks), outputs=checks), kept


def _expected(setup: Setup, output: WorkloadOutput, memory: MemoryStore) -> AnyOpExpected:
    """What *output* should be. A product is sampled where a sample was asked for, or where it is large."""
    with user_code(setup.loaded.path, f"the parts of {output.name}"):
        stored = OutputParts(output.shape, output.dtype, tuple(output.parts))
    if setup.check is CheckMode.SAMPLE or (setup.check is CheckMode.AUTO and output.flops > SAMPLED_ABOVE):
        with user_code(setup.loaded.path, f"the factors of {output.name}"):
            factors = output.factors(memory)
        if factors is not None and why_not_sampled(*factors, output.dtype) is None:
            return OpProduct(*factors, setup.seed, stored)
    with user_code(setup.loaded.path, f"the reference of {output.name}"):
        reference, allowed = output.expected(memory)
    place = setup.place(f"expected {output.name}")
    reference = check_array(place, output.name, reference)
    if reference.shape != output.shape:
        raise BenchmarkError(place, f"shape {reference.shape}", f"{output.shape}")
    return OpExpected(reference, checked_tolerance(place, output.name, allowed, reference), stored)
