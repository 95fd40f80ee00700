"""The comparison of two runs: differences of two partitions, which add up to the difference of their times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

from msgspec import Struct

from kb_cli.compare.blocks import BlockChange, PeChange, block_changes, pe_changes
from kb_cli.compare.configuration import ConfigurationChange, configuration_changes
from kb_cli.compare.op_changes import ModelChange, OpChange, missing_ops, model_change, op_changes
from kb_cli.compare.side import Side
from kb_cli.terminal.in_notebooks import notebook_html, prompt_text
from kb_dataexec.analysis import Where
from kb_messages import KbError, int_of
from kb_topology import listing


class LineMatch:
    """Matches the kernel lines of two benchmark files, by a diff of the two.

    Lines of other files match themselves. A line that was changed matches the line in its place; a line that was added
    or removed matches none.
    """

    def __init__(self, first: tuple[str, Sequence[str]], second: tuple[str, Sequence[str]]) -> None:
        (self._file, before), (self._other, after) = first, second
        self._back = _pairs(before, after)
        self._forth = {number: other for other, number in self._back.items()}

    def first(self, line: str) -> str:
        """Returns the line of the first source that matches *line* of the second; "" where there is none."""
        return _matched(line, self._other, self._file, self._back)

    def second(self, line: str) -> str:
        """Returns the line of the second source that matches *line* of the first; "" where there is none."""
        return _matched(line, self._file, self._other, self._forth)


def _matched(line: str, file: str, other: str, numbers: Mapping[int, int]) -> str:
    name, _, number = line.rpartition(":")
    known = int_of(number)
    if name != file or known is None:
        return line
    found = numbers.get(known)
    return "" if found is None else f"{other}:{found}"


def _pairs(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """Returns the number of each matched line of *before* by its number in *after*, from 1."""
    if before == after:
        return {number: number for number in range(1, len(after) + 1)}
    found: dict[int, int] = {}
    for _, start, end, other, other_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for step in range(min(end - start, other_end - other)):
            found[other + step + 1] = start + step + 1
    return found


_Key: TypeAlias = tuple[str, str, str, str, str]
_SHOWN: Final = 4
"""The most lines, and tiles of a line, in the sentence about other tiles."""


class TilesChange(Struct, frozen=True, kw_only=True):
    """The tiles, such as `64x128x64`, that the two chips chose for GEMMs of `line` that leave their tile open."""

    line: str
    before: list[str]
    after: list[str]


class RowChange(Struct, frozen=True, kw_only=True):
    """A row of both partitions, over all launches: picoseconds of the path before and after.

    `line` is the kernel line of the first run, and `line_after` the line of the second. They are "" for work of no
    line, and for a line that the other run's source does not have.
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
    """The second run against the first. Pairs are (before, after).

    `same` says that the logs have one digest: the runs are the same. `tiles` are kernel lines whose GEMMs leave their
    tile to the chip and got other tiles; it is empty for runs of two kernels or parameters. `latency_ps` is from the
    first kernel's start to the last one's end, and `whole_ps` from the host's call to its answer, each added up over
    launches; `whole_ps` is None when a run does not say where its time went. The `change_ps` of `rows` add up to the
    change of `whole_ps`, and without the rows whose `via` is `launch` or `answer` to the change of `latency_ps`. `rows`
    has no rows without a change. `missing` names the parts that cannot be compared. `ops` are those of two workloads,
    and `model` is the time of their whole models; there are none for other benchmarks.
    """

    before: str
    after: str
    same: bool
    configuration: list[ConfigurationChange]
    latency_ps: tuple[int, int]
    tiles: list[TilesChange]
    change_ps: int
    whole_ps: tuple[int, int] | None
    rows: list[RowChange]
    blocks: list[BlockChange]
    pes: list[PeChange]
    sentences: list[str]
    missing: list[str]
    ops: list[OpChange] = []
    model: ModelChange | None = None

    _repr_html_ = notebook_html
    __repr__ = prompt_text


def compare(one: Side, other: Side, blocks_alone: bool = False) -> RunComparison:
    """Compares two runs; with *blocks_alone*, without kernel lines. Otherwise raises KbError for runs of two
    benchmarks, unless both are workloads.
    """
    names = one.run.benchmark.name, other.run.benchmark.name
    ops = op_changes(one, other)
    if names[0] != names[1] and not blocks_alone and not ops:
        needs = "runs of one benchmark; --blocks compares blocks alone"
        raise KbError(f"{one.folder}, {other.folder}", f"{names[0]} and {names[1]}", needs)
    latency = one.run.results.latency_ps, other.run.results.latency_ps
    there = one.where is not None and other.where is not None
    before, after = (each.where or Where(launches=[], missing=[]) for each in (one, other))
    if not there:
        before = after = Where(launches=[], missing=[])
    blocks = block_changes(before, after)
    changes = configuration_changes(one, other)
    tiles = list(_tiles_changes(one, other)) if all(each.part == "topology" for each in changes) else []
    return RunComparison(
        before=str(one.folder),
        after=str(other.folder),
        same=one.run.log_digest is not None and one.run.log_digest == other.run.log_digest,
        configuration=changes,
        latency_ps=latency,
        tiles=tiles,
        change_ps=latency[1] - latency[0],
        whole_ps=(_whole_ps(before), _whole_ps(after)) if there else None,
        rows=[] if blocks_alone else list(row_changes(before, after, _match(one, other))),
        blocks=[each for each in blocks if each.changed],
        pes=pe_changes(before, after),
        ops=ops,
        model=model_change(one, other),
        sentences=[
            *missing_ops(ops),
            *([_tiles_sentence(tiles)] if tiles else []),
            *(each.sentence(blocks) for each in blocks if each.matters(latency[0])),
        ],
        missing=list(_missing(one, other)),
    )


def _tiles_changes(one: Side, other: Side) -> Iterator[TilesChange]:
    """Yields the lines for which both chips chose tiles, and different ones."""
    before, after = _chosen(one), _chosen(other)
    for line in sorted(before.keys() & after.keys()):
        if before[line] != after[line]:
            yield TilesChange(line=line, before=sorted(before[line]), after=sorted(after[line]))


def _chosen(side: Side) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    chosen = side.run.results.chosen_tiles
    for each in chosen if isinstance(chosen, list) else []:
        found.setdefault(each.line, set()).add(each.tile)
    return found


def _tiles_sentence(changes: list[TilesChange]) -> str:
    lines = (
        f"{each.line} has {listing(each.before, _SHOWN)} before and {listing(each.after, _SHOWN)} after"
        for each in changes
    )
    return f"The chips chose other tiles for GEMMs: {listing(lines, _SHOWN)}."


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
    """Yields the differences of two partitions, the largest first."""
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
