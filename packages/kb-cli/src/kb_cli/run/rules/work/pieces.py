"""Pieces: transfers of many short runs of bytes, and of few bytes, which pay more for the way than for the bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.rule import Rule
from kb_cli.run.rules.run_facts import RunFacts
from kb_cli.run.rules.work.command_times import Commands, CommandTimes
from kb_cli.run.rules.work.op_sums import Array, first_operands, hashed, operands_of, ops_named
from kb_cli.run.rules.work.path_time import FIXED_WORK, LINK_WORK, MEMORY_WORK, PathTime
from kb_cli.terminal.units import duration, percent
from kb_dataexec import OpLog
from kb_engine import Host
from kb_messages import DmaParams, KbError, Rectangle, Role, StageType

_NAME: Final = "pieces and bursts"
_MOVES: Final = (
    ("dma_read", Role.SRC, StageType.DMA_READ),
    ("dma_write", Role.DST, StageType.DMA_WRITE),
)
_TRANSFERS: Final = FIXED_WORK | LINK_WORK | MEMORY_WORK
_PER_COMMAND: Final = FIXED_WORK | {"issue", "decode", "program"}
_SHORT: Final = 0.5
"""The least share of a transfer that does not depend on its bytes, where the transfer is short. Source: assumed."""
_IN_ONE: Final = 0.8
"""The time in one piece over the time in many, at most, where pieces are a flaw. Source: assumed."""
_WHOLE: Final = 0.9
"""The least share of the bytes between the first and the last load that are loaded, where blocks follow each other."""
_MOST_TIMES: Final = 16
"""The most blocks that are put together: more of them gain little, because fixed costs are 6 % of what they were."""


class _Moves(NamedTuple):
    """`n_ops` transfers of equal rectangles at one kernel line, which took `took_ps`. One has these `rectangles`."""

    stage: StageType
    component: str
    rectangles: tuple[Rectangle, ...]
    n_ops: int
    took_ps: int

    @property
    def nbytes(self) -> int:
        """The bytes of one of the transfers."""
        return sum(each.nbytes for each in self.rectangles)


class _Times(NamedTuple):
    """Blocks that are put together: `times` as many, which gains the share `gain` of the latency."""

    gain: float
    times: int


class _Work(NamedTuple):
    """The picoseconds of the commands of a PE that are no loads, costs per command and all others, and of one load."""

    fixed_ps: float
    other_ps: float
    load_ps: float


class Pieces(Rule):
    """Finds transfers whose bytes take less time than all the rest of them.

    *Pieces*: a transfer of several runs of bytes that are equally far apart, which takes longer than the same bytes in
    one run, by the DMA's own estimate for a transfer alone (`alone_ps`): pieces cost set-up, and bursts and links carry
    more bytes. A line gains this share of its transfers on the critical path. Runs at other distances are left out,
    because such places may be known only while the kernel runs. Of a composite, the first tile stands for all.

    *Short transfers*: loads of blocks that follow each other, if set-up, latency and ways are more than half of the
    transfers on the critical path. Blocks that are t times as large have one t-th of the steps, and of all costs per
    command: on the path, issue, decoding, starts of programs, and the fixed costs of transfers. All other costs of a
    step, and at least the step's share of the service of the busiest block or link, grow t times. Steps are dealt out
    evenly, so a PE has ceil(ceil(steps / t) / PEs) of them. Where loads run ahead, the first load and the other
    commands of a PE are the least time. The t with the least time is chosen, as far as TCM has room
    for t times the bytes that the kernel has held there.

    A run with fewer pieces does not become shorter than the service of the busiest block besides memories and DMAs.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[int, ...], list[int]] = {}
        self._first: dict[tuple[int, ...], tuple[StageType, int, tuple[Rectangle, ...]]] = {}
        self._line_ps: dict[int, int] = defaultdict(int)
        self._strings: Sequence[str] = ()

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._strings = chunk.strings
        for name, role, stage in _MOVES:
            ops = ops_named(chunk, name, first_tiles=True)
            if len(ops):
                self._look_at(chunk, ops, role, stage)

    def _look_at(self, chunk: OpLog, ops: Array, role: Role, stage: StageType) -> None:
        took = ops["t_end_ps"] - ops["t_start_ps"]
        lines, of_line = np.unique(ops["line"], return_inverse=True)
        for line, ps in zip(lines.tolist(), np.bincount(of_line, took).tolist(), strict=True):
            self._line_ps[line] += int(ps)
        rows, row_nbytes, _, _, _, stride = first_operands(chunk, ops["op_id"], role)
        mine = operands_of(chunk, ops["op_id"], role)
        ids, n_of = np.unique(mine["op_id"], return_counts=True)
        if not len(ids):
            return
        at = np.minimum(np.searchsorted(ids, ops["op_id"]), len(ids) - 1)
        n_pieces = np.where(ids[at] == ops["op_id"], n_of[at], 0)
        cut = np.flatnonzero((n_pieces > 1) | ((rows > 1) & (stride != row_nbytes)))
        if not len(cut):
            return
        columns = [ops["line"][cut].astype(np.int64), n_pieces[cut], rows[cut], row_nbytes[cut], stride[cut]]
        _, first, which = np.unique(hashed(columns), return_index=True, return_inverse=True)
        sums = np.bincount(which), np.bincount(which, took[cut])
        for number, place in enumerate(first.tolist()):
            key = (stage.value, *(int(column[place]) for column in columns))
            total = self._sums.setdefault(key, [0, 0])
            total[0] += int(sums[0][number])
            total[1] += int(sums[1][number])
            if key not in self._first:
                op = ops[cut[place]]
                self._first[key] = stage, int(op["component"]), _rectangles(mine[mine["op_id"] == op["op_id"]])

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy of the flaw, or None for a run without the flaw."""
        found = [each for each in (self._cut(facts), _short(facts)) if each is not None]
        return max(found, key=lambda each: each.gain, default=None)

    def _cut(self, facts: RunFacts) -> Remedy | None:
        """The remedy of transfers in pieces."""
        saved_ps: dict[int, float] = defaultdict(float)
        worst: tuple[float, _Moves, tuple[int, int]] | None = None
        for key, (n_ops, took_ps) in self._sums.items():
            stage, component, rectangles = self._first[key]
            moves = _Moves(stage, self._strings[component], rectangles, n_ops, took_ps)
            both = _alone_ps(moves, facts.host) if _is_regular(rectangles) else None
            if both is None or both[1] > both[0] * _IN_ONE:
                continue
            less_ps = took_ps * (1 - both[1] / both[0])
            saved_ps[key[1]] += less_ps
            if worst is None or less_ps > worst[0]:
                worst = less_ps, moves, both
        if worst is None:
            return None
        path = PathTime(facts)
        moved = path.by_line(lambda row: row.what in _TRANSFERS)
        on_path = {
            line: moved[self._strings[line]] * less_ps / self._line_ps[line] for line, less_ps in saved_ps.items()
        }
        _, moves, (cut_ps, whole_ps) = worst
        n_runs, run = sum(each.rows for each in moves.rectangles), moves.rectangles[0].row_nbytes
        return Remedy(
            rule=_NAME,
            part=moves.component,
            flaw=f"a transfer of {n_runs} runs of {run} bytes takes {duration(cut_ps)}, and "
            f"{duration(whole_ps)} in one piece",
            change="keep each block in one piece in memory",
            gain=path.gain(sum(on_path.values()), _least_ps(facts, path)),
            basis="estimated",
            line=self._strings[max(on_path, key=lambda line: on_path[line])],
        )


def _rectangles(operands: Array) -> tuple[Rectangle, ...]:
    columns = (operands[name].tolist() for name in ("owner", "offset", "rows", "row_nbytes", "stride"))
    return tuple(Rectangle.of_memory(*each) for each in zip(*columns, strict=True) if each[0])


def _is_regular(rectangles: Sequence[Rectangle]) -> bool:
    """Whether equal rectangles are equally far apart."""
    apart = {after.base - before.base for before, after in pairwise(rectangles)}
    sides = {(each.rows, each.row_nbytes, each.stride) for each in rectangles}
    return len(sides) == 1 and len(apart) < 2


def _alone_ps(moves: _Moves, host: Host) -> tuple[int, int] | None:
    """Picoseconds of one of *moves* alone, as it is and in one piece; None where the DMA does not say.

    A log does not say whether one rectangle was moved as a piece, whose runs count in whole bursts. It was, if the
    transfers took as long.
    """
    block, first = host.engine.components.get(moves.component), moves.rectangles[0]
    if block is None:
        return None
    whole = DmaParams(Rectangle(first.base, 1, moves.nbytes, moves.nbytes))
    tried = DmaParams(first, pieces=moves.rectangles), DmaParams(first), whole
    try:
        in_pieces_ps, plain_ps, whole_ps = (block.alone_ps(moves.stage, params)[0] for params in tried)
    except (KbError, NotImplementedError):
        return None
    is_plain = len(moves.rectangles) == 1 and moves.took_ps < in_pieces_ps * moves.n_ops
    cut_ps = plain_ps if is_plain else in_pieces_ps
    return (cut_ps, whole_ps) if cut_ps and whole_ps else None


def _least_ps(facts: RunFacts, path: PathTime) -> int:
    """The service of the busiest block that neither moves bytes nor keeps them."""
    nodes = facts.host.engine.topology.graph.nodes.values()
    return path.busiest_ps({node.kind.value for node in nodes if node.memory is not None}, False)


def _short(facts: RunFacts) -> Remedy | None:
    """The remedy of short transfers."""
    times, path = facts.commands, PathTime(facts)
    commands = times.commands
    if commands is None or path.fixed < _SHORT or _issues_ahead(facts.host) or not _follow_each_other(commands):
        return None
    best = _larger(times, commands, facts, path)
    if best is None:
        return None
    loads = np.flatnonzero(commands.is_load)
    lines, n_loads = np.unique(commands.line[loads], return_counts=True)
    line = int(lines[np.argmax(n_loads)])
    nbytes = int(np.median(commands.nbytes[loads][commands.line[loads] == line]))
    return Remedy(
        rule=_NAME,
        part="loads",
        flaw=f"loads of {nbytes:,} bytes pay {percent(path.fixed)} of their time for set-up, latency and ways",
        change=f"make blocks {best.times} times as large: {nbytes * best.times:,} bytes a load",
        gain=best.gain,
        basis="estimated",
        line=times.strings[line],
    )


def _issues_ahead(host: Host) -> bool:
    """Whether a command of a PE may begin before the kernel's last one ends, so that their times do not add up."""
    return any(pe.cpu.issues_ahead for pe in host.engine.pes.values())


def _follow_each_other(commands: Commands) -> bool:
    """Whether the loads of every line are runs that fill a part of memory, one behind the other, and none again."""
    loads = commands.is_load
    if not loads.any() or (commands.n_pieces > 1).any() or (commands.span_nbytes != commands.nbytes).any():
        return False
    for line in np.unique(commands.line[loads]):
        mine = loads & (commands.line == line)
        _, first = np.unique(hashed([commands.owner[mine], commands.offset[mine]]), return_index=True)
        owner, offset, nbytes = (column[mine][first] for column in (commands.owner, commands.offset, commands.nbytes))
        if len(first) < _WHOLE * mine.sum() or not _ascend(commands, mine):
            return False
        spans = sum(
            int((offset + nbytes)[owner == each].max() - offset[owner == each].min()) for each in np.unique(owner)
        )
        if nbytes.sum() < _WHOLE * spans:
            return False
    return True


def _ascend(commands: Commands, mine: npt.NDArray[np.bool_]) -> bool:
    """Whether the loads *mine* of each PE go on behind the load before, and do not go from tensor to tensor."""
    pe, owner, offset = (column[mine] for column in (commands.pe, commands.owner, commands.offset))
    is_pair = pe[1:] == pe[:-1]
    goes_on = is_pair & (owner[1:] == owner[:-1]) & (offset[1:] > offset[:-1])
    return bool(goes_on.sum() >= _WHOLE * is_pair.sum())


def _larger(times: CommandTimes, commands: Commands, facts: RunFacts, path: PathTime) -> _Times | None:
    """The best size of blocks; None if no size gains."""
    loads = commands.is_load
    begins = loads & ~(np.roll(loads, 1) & (np.roll(commands.program, 1) == commands.program))
    launch = times.kernels.launch[commands.program]
    steps = [np.bincount(commands.pe[launch == each], begins[launch == each]) for each in np.unique(launch)]
    most = max(sum(int(of_pes.max()) for of_pes in steps), 1)
    fixed_ps = sum(path.by_line(lambda row: row.what in _PER_COMMAND).values()) / most
    other_ps = max(path.span_ps / most - fixed_ps, path.busiest_ps() / most)
    work = _work(commands, path.fixed)
    most_of_launch = max(int(of_pes.max()) for of_pes in steps)
    found = [_Times(0.0, 1)]
    for many in range(2, min(most_of_launch, _MOST_TIMES, _room(times, commands, facts.host)) + 1):
        longest = sum(ceil(ceil(of_pes.sum() / many) / max(np.count_nonzero(of_pes), 1)) for of_pes in steps)
        first_ps = work.load_ps * (path.fixed + many * (1 - path.fixed))
        beside_ps = first_ps + work.other_ps + work.fixed_ps * longest / most
        new_ps = max(longest * (fixed_ps + many * other_ps), beside_ps)
        found.append(_Times(path.gain(path.span_ps - new_ps), many))
    best = max(found)
    return best if best.gain else None


def _work(commands: Commands, fixed: float) -> _Work:
    """The work of the PE that works the longest. Of a write, the share *fixed* does not depend on its bytes."""
    work = np.where(commands.is_load, 0, commands.t_done_ps - commands.t_call_ps)
    own = np.where(commands.is_load, 0, commands.issue_ps + commands.decode_ps + fixed * commands.write_ps)
    by_pe = np.bincount(commands.pe, work)
    has_loads = np.bincount(commands.pe, commands.is_load) > 0
    pe = int(np.argmax(np.where(has_loads, by_pe, -1)))
    fixed_ps = float(np.bincount(commands.pe, own)[pe])
    loads = commands.is_load & (commands.pe == pe)
    return _Work(fixed_ps, float(by_pe[pe]) - fixed_ps, float(commands.service_ps[loads].mean()))


def _room(times: CommandTimes, commands: Commands, host: Host) -> int:
    """How often the bytes that commands have written fit into the TCM of each PE that loads."""
    found = []
    for number in np.unique(commands.pe[commands.is_load]).tolist():
        pe = host.engine.pes[times.strings[number]]
        reserved = pe.scheduler.reserved_nbytes
        found.append((pe.tcm_nbytes - reserved) // max(times.tcm_nbytes(pe.tcm_owner, reserved), 1))
    return min(found, default=1)
