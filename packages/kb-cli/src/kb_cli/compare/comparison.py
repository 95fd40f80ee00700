"""What changed between two runs: differences of two partitions, which add up to the difference of their times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from kb_cli.compare.blocks import BlockChange, block_changes
from kb_cli.compare.configuration import ConfigurationChange, configuration_changes
from kb_cli.compare.line_match import LineMatch
from kb_cli.compare.pes import PeChange, pe_changes
from kb_cli.compare.side import Side
from kb_dataexec.analysis import Where
from kb_messages import KbError

_Key: TypeAlias = tuple[str, str, str, str, str]
_OTHER_TILES: Final = (
    "The commands have other tiles: {:,} stages before, {:,} after. "
    "Where a kernel leaves a tile open, its chip chooses one."
)


class RowChange(Struct, frozen=True, kw_only=True):
    """A row of both partitions, over all launches: picoseconds of the path before and after.

    `line` is the kernel line of the first run, and `line_after` that of the second. They are "" for work of no line,
    and for a line that the other run's source does not have.
    """

    line: str
    line_after: str
    block: str
    what: str
    via: str
    before_ps: int
    after_ps: int
    change_ps: int


class RunComparison(Struct, frozen=True, kw_only=True):
    """The second run against the first.

    `tile_stages` are the stages of all tiles, before and after. They differ for one kernel on two chips where the chips
    chose other tiles. `same` says that their logs have one digest: they are the same run. `latency_ps` are from the
    first kernel's start to the last one's end, and `whole_ps` from the host's call to its answer, each added up over
    launches, before and after; `whole_ps` is None when a run does not say where its time went. The `change_ps` of
    `rows` add up to the change of `whole_ps`, and those of rows with another `via` than `launch` and `answer` to that
    of `latency_ps`. Rows and blocks without a change are left out of `rows`, but not of `blocks`. `missing` says what
    cannot be compared.
    """

    before: str
    after: str
    same: bool
    configuration: list[ConfigurationChange]
    latency_ps: tuple[int, int]
    tile_stages: tuple[int, int]
    change_ps: int
    whole_ps: tuple[int, int] | None
    rows: list[RowChange]
    blocks: list[BlockChange]
    pes: list[PeChange]
    sentences: list[str]
    missing: list[str]


def compare(one: Side, other: Side, blocks_alone: bool = False) -> RunComparison:
    """Compare two runs, with *blocks_alone* without kernel lines. Raises KbError for runs of two benchmarks else."""
    names = one.run.benchmark.name, other.run.benchmark.name
    if names[0] != names[1] and not blocks_alone:
        needs = "runs of one benchmark; --blocks compares blocks alone"
        raise KbError(f"{one.folder}, {other.folder}", f"{names[0]} and {names[1]}", needs)
    latency = one.run.results.latency_ps, other.run.results.latency_ps
    there = one.where is not None and other.where is not None
    before, after = (each.where or Where(launches=[], missing=[]) for each in (one, other))
    if not there:
        before = after = Where(launches=[], missing=[])
    blocks = block_changes(before, after)
    stages = one.run.results.tile_stages, other.run.results.tile_stages
    changes = configuration_changes(one, other)
    cut_anew = stages[0] != stages[1] and all(each.part == "topology" for each in changes)
    return RunComparison(
        before=str(one.folder),
        after=str(other.folder),
        same=one.run.log_digest is not None and one.run.log_digest == other.run.log_digest,
        configuration=changes,
        latency_ps=latency,
        tile_stages=stages,
        change_ps=latency[1] - latency[0],
        whole_ps=(_whole_ps(before), _whole_ps(after)) if there else None,
        rows=[] if blocks_alone else list(row_changes(before, after, _match(one, other))),
        blocks=[each for each in blocks if each.changed],
        pes=pe_changes(before, after),
        sentences=[
            *([_OTHER_TILES.format(*stages)] if cut_anew else []),
            *(each.sentence(blocks) for each in blocks if each.matters(latency[0])),
        ],
        missing=list(_missing(one, other)),
    )


def _match(one: Side, other: Side) -> LineMatch:
    return LineMatch((one.run.benchmark.file, one.source), (other.run.benchmark.file, other.source))


def _missing(one: Side, other: Side) -> Iterator[str]:
    for side in (one, other):
        if side.where is None:
            yield f"{side.folder}: got a run that does not say where its time went, so only the times are compared"
        else:
            yield from (f"{side.folder}: the log lacks {name}" for name in side.where.missing)


def _whole_ps(where: Where) -> int:
    return sum(launch.end_ps - launch.start_ps for launch in where.launches)


def row_changes(before: Where, after: Where, match: LineMatch) -> Iterator[RowChange]:
    """The differences of two partitions, the largest first."""
    sums: dict[_Key, list[int]] = {}
    for place, where in enumerate((before, after)):
        for launch in where.launches:
            for row in launch.rows:
                lines = (match.first(row.line), row.line) if place else (row.line, match.second(row.line))
                sums.setdefault((*lines, row.block, row.what, row.via), [0, 0])[place] += row.ps
    for key, (old, new) in sorted(sums.items(), key=lambda each: (-abs(each[1][1] - each[1][0]), each[0])):
        if old != new:
            line, line_after, block, what, via = key
            yield RowChange(
                line=line,
                line_after=line_after,
                block=block,
                what=what,
                via=via,
                before_ps=old,
                after_ps=new,
                change_ps=new - old,
            )
