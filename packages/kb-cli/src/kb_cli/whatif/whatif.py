"""`kb whatif`: the bound and the measured latency of another chip, and a comparison with the finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from kb_cli.compare.comparison import RunComparison, compare
from kb_cli.compare.side import read_side
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.base.result import Policy
from kb_cli.run.records.where_time import where_of
from kb_cli.run.saving.save import record_run
from kb_cli.whatif.bound import bound_ps, busy_parts, by_kind, limits_of
from kb_cli.whatif.chip_levers import Moved, chip_levers, moved
from kb_cli.whatif.levers import check_baseline
from kb_cli.whatif.ran_setup import RanSetup, read_setup
from kb_cli.whatif.timed_run import usage_of
from kb_messages import BenchmarkError
from kb_topology import Topology, YamlPath, format_path, loads_topology, parse_path, value_at, with_values


class SetValue(Struct, frozen=True, kw_only=True):
    """One `--set`: the value at `path` of the chip before, None for one that the file did not state, and after."""

    path: str
    before: object
    after: object


class WhatIf(Struct, frozen=True, kw_only=True):
    """A finished run against the same run on a chip with other values.

    `bound_ps` is the latency at best, and None when a value is no lever, or the run does not say where its time went.
    `latency_ps` is the measured latency, `before_ps` the latency of the run, and `change` their difference over
    `before_ps`.
    """

    run: str
    set: list[SetValue]
    before_ps: int
    bound_ps: int | None
    latency_ps: int
    change: float
    comparison: RunComparison


def parse_sets(texts: Sequence[str]) -> dict[YamlPath, str]:
    """Returns `PATH=VALUE` texts by place.

    Raises BenchmarkError for a text without `=` and a place given twice, and TopologyError for a text that is no place.
    """
    found: dict[YamlPath, str] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        if not equals:
            fix = "write it like --set '$.cube.nodes.hbm.bw_gbs=204.8'"
            raise BenchmarkError("--set", repr(text), "PATH=VALUE", fix)
        path = parse_path(place.strip())
        if path in found:
            got = f"{found[path]!r} and {value!r}"
            raise BenchmarkError(f"--set {format_path(path)}", got, "one value", "give it once")
        found[path] = value
    return found


def what_if(folder: Path, texts: Sequence[str], progress: RunProgress) -> WhatIf:
    """Runs the benchmark of *folder* on its chip with the values of *texts*. Runs the benchmark's code.

    Raises TopologyError for a place that the chip's file does not have, and for a value that it does not take, and the
    errors of a run.
    """
    values = parse_sets(texts)
    ran = read_setup(folder)
    old = ran.setup.topology
    new_source = with_values(old.source, values)
    new = loads_topology(new_source.text, new_source.path)
    bound = _bound_ps(ran, new, values)
    check_baseline(ran, progress)
    with TemporaryDirectory(prefix="kb-whatif-") as place:
        path = Path(place) / "changed"
        setup = ran.setup._replace(topology=new, log=ran.run.flags.log, rules=False)
        result = record_run((path, path), setup, Policy.NONE, progress).result
        comparison = compare(read_side(folder), read_side(path)._replace(folder=Path("changed")))
    before_ps = ran.run.results.latency_ps
    return WhatIf(
        run=str(folder),
        set=[
            SetValue(path=format_path(each), before=value_at(old.source, each), after=value_at(new.source, each))
            for each in values
        ],
        before_ps=before_ps,
        bound_ps=bound,
        latency_ps=result.latency_ps,
        change=result.latency_ps / before_ps - 1 if before_ps else 0.0,
        comparison=comparison,
    )


def _bound_ps(ran: RanSetup, new: Topology, values: Mapping[YamlPath, str]) -> int | None:
    """Returns the bound when all *values* are levers, on both chips; otherwise None."""
    where = where_of(ran.folder, ran.run)
    levers = chip_levers(ran.setup.topology)
    before = {path: value for each in levers for path, value in each.values.items() if path in values}
    after = {path: value for each in chip_levers(new) for path, value in each.values.items() if path in before}
    if where is None or before.keys() != set(values) or after.keys() != before.keys():
        return None
    pulled: list[Moved] = moved(levers, before, after)
    topology = ran.setup.topology
    busy = limits_of(busy_parts(usage_of(ran.folder, ran.run), topology), topology)
    return bound_ps(by_kind(where, topology), busy, pulled)
