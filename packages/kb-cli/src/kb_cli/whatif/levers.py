"""Levers: which value of a chip would make a finished run faster, and by how much. Each is measured by pass 1."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kb_cli.benchmark.author_calls import Arrays, inputs_of
from kb_cli.benchmark.setup import Setup
from kb_cli.compare.blocks import block_name
from kb_cli.run.base.files import RunFolderError, folder_path
from kb_cli.run.base.progress import PASS_1, RunProgress
from kb_cli.run.folders.identity import versions
from kb_cli.run.records.run_json import read_one_run
from kb_cli.run.saving.save import Finished
from kb_cli.whatif.budget import MOST_S, Budget, OutOfTime
from kb_cli.whatif.known_levers import Levers, best_first, known_levers, ranked
from kb_cli.whatif.lever_chances import TriedLever, with_set
from kb_cli.whatif.levers_file import MeasuredLever, write_measured
from kb_cli.whatif.op_levers import first_levers
from kb_cli.whatif.pass_one import pass_one
from kb_cli.whatif.ran_setup import RanSetup, read_setup
from kb_cli.whatif.timed_run import TimedRun
from kb_messages import KbError
from kb_topology import Topology


def levers(
    folder: str | os.PathLike[str],
    most: int | None = None,
    within_s: float = MOST_S,
    progress: RunProgress | None = None,
) -> Levers:
    """Tries the levers of the run in *folder* that have at least 2 % of its path, and sets of levers, the best bound
    first.

    At most *most* are tried, and no measurement goes on after *within_s* seconds. A lever that the folder's levers.json
    has is not measured again, and the file gets the new ones. Measuring runs the benchmark of the folder.

    Raises RunFolderError for a folder that is none of one run, that has been changed, or whose run has no log or is of
    another version of kb with other times, and KbErrors of the benchmark.
    """
    return levers_of_folder(folder_path(folder), Budget(within_s), most, progress or RunProgress())


def levers_of_folder(
    folder: Path, budget: Budget, most: int | None, progress: RunProgress, only_bundled: bool = False
) -> Levers:
    """Tries the levers of the run in *folder* within *budget*, as `levers` does.

    With *only_bundled*, a benchmark that does not come with kb raises RunFolderError where it would be run.
    """
    known = known_levers(folder)
    chosen, rest = known.levers[:most], known.levers[most:] if most is not None else []
    if any(each.latency_ps is None for each in chosen):
        ran = read_setup(folder, only_bundled)
        check_baseline(ran, progress)
        chosen = _measured(ran.setup, replace(known, levers=chosen), progress, budget)
        _write(folder, ran.setup.topology, [*chosen, *rest])
    return replace(known, levers=ranked(chosen))


def levers_after(
    setup: Setup, finished: Finished, limit: tuple[Budget, int | None], progress: RunProgress, folder: Path | None
) -> Levers:
    """Tries the levers of the run *finished* of *setup*, the best bound first. This launches again.

    *limit* is the time for measuring, and the most levers to try, None for all.

    With *folder*, the run's folder, the measurements go into its levers.json. The run needs a log.
    """
    outcome = finished.outcome
    assert outcome.where is not None, "a run with a log says where its time went"
    timed = TimedRun.of(setup.topology, finished.result, outcome.where, outcome.usage)
    again = setup._replace(verify=False, log=False, sanitize=False, races=False, compute=False, exact="isolated")
    budget, most = limit
    chances = best_first(timed) if folder is None else known_levers(folder).levers
    asked = Levers(latency_ps=timed.latency_ps, levers=chances[:most], chances=len(chances))
    found = _measured(again, asked, progress, budget)
    if folder is not None:
        _write(folder, setup.topology, [*found, *chances[len(asked.levers) :]])
    return replace(asked, levers=ranked(found))


def _write(folder: Path, topology: Topology, found: Iterable[TriedLever]) -> None:
    measured = [of for each in found if (of := MeasuredLever.from_lever(each)) is not None]
    with suppress(RunFolderError):  # a folder that may be read but not written
        write_measured(folder, read_one_run(folder).sha256, versions(topology), measured)


def check_baseline(ran: RanSetup, progress: RunProgress) -> None:
    """Raises RunFolderError unless this version of kb gives the time of *ran*. Equal versions do."""
    if ran.run.versions == versions(ran.setup.topology):
        return
    progress.begin(PASS_1, "the unchanged chip")
    found = pass_one(ran.setup, progress, inputs_of(ran.setup)).latency_ps
    needed = ran.run.results.latency_ps
    if found != needed:
        got = f"{found} ps for the unchanged chip with this version of kb"
        raise RunFolderError(str(ran.folder), got, f"{needed} ps, as the run took", "run it again")


def _measured(setup: Setup, asked: Levers, progress: RunProgress, budget: Budget) -> list[TriedLever]:
    """Returns the levers *asked* with their gains; those for which the time is over stay unmeasured.

    Without being asked for them all, no more are measured than the closing sentence of the run and the first levers of
    ops need. Values beyond the limits of the file format are left out. The inputs are made once, because making them
    may take longer than a launch.
    """
    found: list[TriedLever] = []
    inputs, firsts = _Inputs(setup), first_levers(asked.levers)
    for number, each in enumerate(asked.levers):
        is_settled = replace(asked, levers=[*found, *asked.levers[number:]]).is_settled
        is_enough = budget.is_short and is_settled and number not in firsts
        if each.latency_ps is not None or is_enough or budget.is_over:
            found.append(each)
            continue
        progress.begin(PASS_1, f"lever {number + 1} of {len(asked.levers)}")
        chip = with_set(setup.topology, each)
        if chip is not None:
            measured = _measurement(setup._replace(topology=chip), inputs, each, progress, budget)
            found.append(each if measured is None else measured.of(each, asked.latency_ps))
    return found


class _Inputs:
    """The inputs of a benchmark, made once for many launches, as long as no launch writes to them."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._shared: Arrays | None = None
        self.are_shared = True

    def unshare(self) -> None:
        """Makes the inputs anew for each launch from now on."""
        self.are_shared = False

    def get(self) -> Arrays:
        """Returns the inputs, which cannot be written while they are shared."""
        if not self.are_shared:
            return inputs_of(self._setup)
        if self._shared is None:
            self._shared = {name: array.view() for name, array in inputs_of(self._setup).items()}
            for array in self._shared.values():
                array.flags.writeable = False
        return self._shared


def _measurement(
    setup: Setup, inputs: _Inputs, lever: TriedLever, progress: RunProgress, budget: Budget
) -> MeasuredLever | None:
    """Returns the measurement of *lever*, whose chip is that of *setup*; None when the time is over.

    Prints of the benchmark are dropped, because the run has printed them.
    """
    try:
        with redirect_stdout(StringIO()):
            try:
                found = pass_one(setup, progress, inputs.get(), budget)
            except KbError:
                if not inputs.are_shared:
                    raise
                inputs.unshare()  # the launch may have written to its inputs
                found = pass_one(setup, progress, inputs.get(), budget)
    except OutOfTime:
        return None
    then = found.busiest
    return MeasuredLever(
        set=lever.set,
        latency_ps=found.model_ps,
        then=block_name(then),
        then_busy=found.uses[then].busiest,
        ops_ps=UNSET if found.ops_ps is None or not _has_ops(lever, len(found.ops_ps)) else found.ops_ps,
    )


def _has_ops(lever: TriedLever, count: int) -> bool:
    """Whether the run of *lever* has *count* ops: a workload may choose its ops by the chip."""
    return not isinstance(lever.op_bounds_ps, UnsetType) and len(lever.op_bounds_ps) == count
