"""The verdict on a workload: each op is compared alone, with its reference on what it read."""

from __future__ import annotations

from kb_cli.benchmark.code.author_results import check_array, checked_tolerance
from kb_cli.benchmark.code.user_code import user_code
from kb_cli.benchmark.expected import OpExpected, OpProduct
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


def judge_workload(
    log: LogParts, memory: MemoryStore | KbError, setup: Setup, progress: RunProgress, writers: Writers
) -> Verdict:
    """Compares every result of every op in *memory*, the memory after *log*. One reference is held at a time.

    Raises BenchmarkError for a reference or a tolerance of another shape than the result.
    """
    assert setup.workload is not None, "the caller looked"
    if isinstance(memory, KbError):
        return refused(str(memory))
    checks: list[OutputCheck] = []
    for output in setup.workload.outputs():
        progress.begin(VERIFY, f"comparing {output.name}")
        where = Output(output.name, output, output.shape, output.dtype)
        checks.append(check_output(log, memory, where, _expected(setup, output, memory), writers))
    return Verdict(ok=all(check.ok for check in checks), outputs=checks)


def _expected(setup: Setup, output: WorkloadOutput, memory: MemoryStore) -> OpExpected | OpProduct:
    """What *output* should be. A product is sampled where a sample was asked for, or where it is large."""
    if setup.check is CheckMode.SAMPLE or (setup.check is CheckMode.AUTO and output.flops > SAMPLED_ABOVE):
        with user_code(setup.loaded.path, f"the factors of {output.name}"):
            factors = output.factors(memory)
        if factors is not None and why_not_sampled(*factors, output.dtype) is None:
            return OpProduct(*factors, setup.seed)
    with user_code(setup.loaded.path, f"the reference of {output.name}"):
        reference, allowed = output.expected(memory)
    place = setup.place(f"expected {output.name}")
    reference = check_array(place, output.name, reference)
    if reference.shape != output.shape:
        raise BenchmarkError(place, f"shape {reference.shape}", f"{output.shape}")
    return OpExpected(reference, checked_tolerance(place, output.name, allowed, reference))
