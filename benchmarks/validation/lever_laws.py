"""Does the last sentence of a run tell the truth of its chip? Bundled and random chips and kernels. See README.md.

    python benchmarks/validation/lever_laws.py                    # everything: an hour; also `nox -s levers`
    python benchmarks/validation/lever_laws.py --cases 200        # random chips and kernels alone
    python benchmarks/validation/lever_laws.py --bundled one_cube # every bundled benchmark on some chips

Exit code 1: a lever of the sentence has another latency when it is pulled alone, or another lever should be told.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import random_chips
import random_talks
from devices import BENCHMARKS
from digests import SMALL
from law_of_runs import check
from msgspec import Struct
from msgspec.structs import replace
from roofs import drawn, streamed

from kb_cli.benchmark.load import load_benchmark, load_defined
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import build_params
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.base.remedy import LEAST_GAIN
from kb_cli.run.saving.save import run_unsaved
from kb_cli.whatif.budget import Budget
from kb_cli.whatif.known_levers import Levers
from kb_cli.whatif.lever_chances import with_set
from kb_cli.whatif.levers import levers_after
from kb_engine import Arrays, Benchmark, Host, Tensor
from kb_messages import KbError
from kb_topology import load_topology

_WITHIN_S: Final = 600.0


class Found(NamedTuple):
    """The levers of a run, and sentences on those that are not as the run tells them.

    `beyond` has the gains of levers that were faster than their bound, beside their gains at best. `refused` is the
    error of a run that kb refuses.
    """

    levers: int
    broken: list[str]
    beyond: list[tuple[float, float]]
    refused: str = ""


def judged(setup: Setup) -> Found:
    """Measures every lever of the run of *setup*, and pulls those that its sentence names once more, with a log."""
    try:
        finished = run_unsaved(setup)
        found = levers_after(setup, finished, (Budget(_WITHIN_S), None), RunProgress(), None)
    except KbError as error:
        return Found(0, [], [], str(error))
    told, before_ps = found.remedies, found.latency_ps
    broken = []
    for each in found.levers:
        if f"{each.name[0].lower()}{each.name[1:]}" in (remedy.change for remedy in told[:2]):
            chip = with_set(setup.topology, each)
            again_ps = -1 if chip is None else run_unsaved(setup._replace(topology=chip)).result.latency_ps
            if again_ps != each.latency_ps:
                broken.append(f"{each.name}: {each.latency_ps} ps measured, {again_ps} ps when pulled alone")
    gains = [each.gain or 0.0 for each in found.levers]
    best = max(gains, default=0.0)
    if best >= LEAST_GAIN and not told:
        broken.append(f"nothing is told, and a lever gains {best}")
    if told and best - told[0].gain > LEAST_GAIN:
        broken.append(f"the first lever gains {told[0].gain}, and another one {best}")
    beyond = [
        (gain, 1 - each.bound_ps / before_ps)
        for each, gain in zip(found.levers, gains, strict=True)
        if each.latency_ps is not None and each.latency_ps < each.bound_ps
    ]
    broken += [] if beyond else _settled_early(found)
    return Found(len(found.levers), broken, beyond)


def _settled_early(found: Levers) -> Iterator[str]:
    """Yields a sentence if measuring that ends where the sentence is settled would tell another first lever."""
    in_order = sorted(found.levers, key=lambda each: (each.bound_ps, len(each.set), -each.path_ps))
    for count in range(len(in_order) + 1):
        rest = [replace(each, latency_ps=None, gain=None) for each in in_order[count:]]
        partly = replace(found, levers=[*in_order[:count], *rest])
        if partly.is_settled:
            first, whole = partly.remedies[:1], found.remedies[:1]
            if [each.gain for each in first] != [each.gain for each in whole]:
                yield f"after {count} levers the first one gains {first}, after all {whole}"
            return


def bundled(chips: Sequence[Path], benchmarks: Sequence[Path] = BENCHMARKS) -> Iterator[tuple[str, Found]]:
    """(run, levers) of each of *benchmarks* on each of *chips*."""
    for chip in chips:
        for benchmark in benchmarks:
            loaded = load_benchmark(str(benchmark))
            small = dict(each.split("=", 1) for each in SMALL.get(benchmark.stem, ()))
            params = build_params(loaded.bench.Params, small)
            setup = Setup(loaded, params, load_topology(chip), 0, verify=False, log=True)
            yield f"{benchmark.stem} on {chip.stem}", judged(setup)


class Streams(Benchmark["Streams.Params"]):
    """The kernel of a random case: reads, writes, products and functions of large blocks."""

    class Params(Struct, frozen=True, kw_only=True):
        """The number of the case."""

        case: int

    def inputs(self, p: Params, rng: np.random.Generator) -> Arrays:
        """No inputs: the case has its own."""
        return {}

    def launch(self, host: Host, p: Params, tensors: Arrays) -> dict[str, Tensor]:
        """Launches the kernel of the case twice."""
        return {"y": streamed(drawn(p.case), host, random.Random(f"{p.case} levers"))}

    def reference(self, p: Params, inputs: Arrays) -> Arrays:
        """No reference: times alone count."""
        raise NotImplementedError

    def flops(self, p: Params) -> int:
        """No operations are stated."""
        return 0


class Talks(Streams):
    """The programs of a random case, which wait for each other."""

    name = "talks"

    def launch(self, host: Host, p: Streams.Params, tensors: Arrays) -> dict[str, Tensor]:
        """Launches the programs of the case once."""
        return {"y": random_talks.launch(host, random_talks.draw(p.case, 2 + p.case % 7, 3))}


def random_run(seed: int) -> Found:
    """The levers of the random chip of *seed*, or, for a fourth of the seeds, of programs that wait for each other."""
    if seed % 4 == 3:
        talks: Any = load_defined(Talks)
        chip = load_topology(random_talks.TOPOLOGIES / "one_cube.yaml")
        return judged(Setup(talks, Talks.Params(case=seed), chip, seed, verify=False, log=True))
    loaded: Any = load_defined(Streams)
    topology = random_chips.topology_of(drawn(seed).spec)
    return judged(Setup(loaded, Streams.Params(case=seed), topology, seed, verify=False, log=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print each run whose levers are not as told, and say by the exit code whether all are."""
    return check(__doc__, arguments, bundled, random_run, summary)


def summary(found: Sequence[Found]) -> str:
    """The number of runs and levers, and by how much levers were faster than their bounds."""
    beyond = [pair for each in found for pair in each.beyond]
    most = max((gain - best for gain, best in beyond), default=0.0)
    refused, broken = sum(bool(each.refused) for each in found), sum(bool(each.broken) for each in found)
    levers = sum(each.levers for each in found)
    return (
        f"{len(found)} runs, {refused} refused, {broken} with a wrong sentence; of {levers} levers {len(beyond)} were "
        f"faster than their bound, by up to {100 * most:.1f} % of the latency"
    )


if __name__ == "__main__":
    sys.exit(main())
