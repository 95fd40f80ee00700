"""BlockingWaits: loads for which a kernel waits, one after the other, where they could run during its work."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.rule import Rule
from kb_cli.run.rules.run_facts import RunFacts
from kb_cli.run.rules.work.command_times import Commands, CommandTimes, Ints, Kernels
from kb_cli.run.rules.work.path_time import PathTime
from kb_cli.terminal.units import duration, percent
from kb_dataexec import OpLog
from kb_engine import Host
from kb_topology import NodeKind

_ROUNDS: Final = 12
"""Rounds until the time of loads and the time of the run agree. Each round halves the difference."""
_LEAST_FREE: Final = 1e-3
_MOST_SHARED: Final = 0.75
"""The share of the time for which a part may be held, if PEs are to meet there by chance alone. Source: assumed."""
_MOST_OPAQUE: Final = 0.1
"""Time of writes of unknown parts, over the waits for loads, up to which an estimate is made. Source: assumed; half of
the error that an estimate may have."""


class _Steps(NamedTuple):
    """Steps of work in columns, in the order of each PE: loads, and then work until the loads of the next step.

    `may_overlap` is False for the first step of a unit, whose loads nothing can hide. `waits_ps` are the waits for the
    loads, and `work_ps` the rest of the step, in which writes take `writes_ps`. The DMA needs `latency_ps` and
    `bytes_ps` for the loads. `calls_ps` is the time that their calls take from a kernel that does not wait for them.
    """

    launch: Ints
    pe: Ints
    may_overlap: npt.NDArray[np.bool_]
    waits_ps: Ints
    work_ps: Ints
    writes_ps: Ints
    latency_ps: Ints
    bytes_ps: Ints
    calls_ps: Ints


class BlockingWaits(Rule):
    """Finds kernels that wait for each load before they go on, and work only then.

    Where the next loads run during the work of a step, the two together take max(loads, work and calls of loads). The
    loads take the sum of their services, over the number of reads that the DMA has under way, and wait for the writes
    of the work at the busiest memory, in which no write met them before. A load that is under way costs the kernel the
    issue or the decoding of its command, whichever is longer. The loads of the first step of a program are not hidden.
    If most programs have one step, they count as one program of their PE, as a loop over blocks would make of them. A
    launch takes as long as its slowest PE, and never less than the busiest other block or link. A Triton kernel cannot
    load ahead; commands that issue ahead hide its stores as well, which then count as a limit of their own.

    Nothing is found if TCM has no room for the loads of one more step, and where loads are gathered in pieces or
    kernels look at values, because the places of loads may depend on the values of other loads. Neither is anything
    said where steps write to a memory that does not say how long bytes hold it, such as one with rows: the order of its
    reads and writes decides.
    """

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*; the commands of all chunks come with the facts."""

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy of the flaw, or None for a run without the flaw."""
        times = facts.commands
        commands = times.commands
        if facts.looks or commands is None or not commands.is_awaited.any() or (commands.n_pieces > 1).any():
            return None
        path = PathTime(facts)
        steps, in_programs = _steps(commands, times.kernels, path.fixed, _dma(commands, facts))
        if not _has_room(times, commands, facts.host):
            return None
        if path.opaque * steps.writes_ps.sum() > _MOST_OPAQUE * steps.waits_ps.sum():
            return None
        shared = _shared(facts)
        saved_ps = _saved_ps(steps, times.kernels, shared, path.span_ps)
        gain = path.gain(saved_ps, path.busiest_ps())
        lines, count = np.unique(commands.line[commands.is_awaited], return_counts=True)
        waits_ps = (commands.t_done_ps - commands.t_call_ps)[commands.is_awaited]
        pe = int(np.argmax(np.bincount(steps.pe, steps.waits_ps)))
        waited_ps = int(waits_ps[commands.pe[commands.is_awaited] == pe].sum())
        means = "as --issue decoupled does" if facts.is_script else "with tl.ahead"
        how = f"load the next block during the work on this one, {means}"
        return Remedy(
            rule="waits of blocking issue",
            part=times.strings[pe],
            flaw=f"{times.strings[pe]} waits {duration(waited_ps)} for loads, {percent(waited_ps / path.span_ps)} of "
            "the time, and works only then",
            change=how if in_programs else f"let one program of each PE take its blocks in a loop, and {how}",
            gain=gain,
            basis="estimated",
            line=times.strings[int(lines[np.argmax(count)])],
        )


def _steps(commands: Commands, kernels: Kernels, fixed: float, dma: _Dma) -> tuple[_Steps, bool]:
    """The steps of all programs, and whether the steps of a program overlap, or those of all programs of a PE."""
    program = commands.program
    is_new = np.ones(len(program), np.bool_)
    is_new[1:] = program[1:] != program[:-1]
    begins = commands.is_load.copy()
    begins[1:] &= is_new[1:] | ~commands.is_load[:-1]
    n_steps = np.bincount(program, begins, len(kernels.pe))
    in_programs = bool((n_steps > 1).sum() * 2 >= (n_steps > 0).sum())
    unit = program if in_programs else kernels.launch[program] * (int(kernels.pe.max()) + 1) + kernels.pe[program]
    first = np.flatnonzero(begins)
    unit_of, launch, pe = unit[first], kernels.launch[program[first]], kernels.pe[program[first]]
    may_overlap = np.zeros(len(first), np.bool_)
    may_overlap[1:] = unit_of[1:] == unit_of[:-1]
    ends = kernels.t_end_ps[program[first]]
    follows = np.zeros(len(first), np.bool_)
    follows[:-1] = may_overlap[1:]
    starts = commands.t_call_ps[first]
    ends[follows] = np.roll(starts, -1)[follows]

    def sums(values: Ints) -> Ints:
        return np.add.reduceat(values, first) if len(first) else values[:0]

    awaited = commands.is_awaited
    waits = sums(np.where(awaited, commands.t_done_ps - commands.t_call_ps, 0))
    own_link_ps = sums(np.where(awaited, commands.nbytes, 0)) * dma.ps_of_byte
    service = sums(np.where(awaited, commands.service_ps, 0))
    under_way = np.clip(sums(awaited.astype(np.int64)), 1, dma.outstanding)
    steps = _Steps(
        launch=launch,
        pe=pe,
        may_overlap=may_overlap,
        waits_ps=waits,
        work_ps=ends - starts - waits,
        writes_ps=sums(commands.write_ps),
        latency_ps=(service * fixed / under_way).astype(np.int64),
        bytes_ps=np.maximum(service * (1 - fixed) / under_way, own_link_ps).astype(np.int64),
        calls_ps=sums(np.where(awaited, np.maximum(commands.issue_ps, commands.decode_ps), 0)),
    )
    return steps, in_programs


class _Dma(NamedTuple):
    """The DMA of a PE: reads that it has under way at once, and the picoseconds of a byte on its busiest link."""

    outstanding: int
    ps_of_byte: float


class _Shared(NamedTuple):
    """The parts of a chip that PEs share, in a run.

    Reads hold the busiest link or memory for `reads_ps`, and writes the busiest memory for `writes_ps`. With
    `hides_writes`, stores run during other work, too.
    """

    reads_ps: int
    writes_ps: int
    hides_writes: bool


def _saved_ps(steps: _Steps, kernels: Kernels, shared: _Shared, span_ps: int) -> int:
    """Picoseconds that all launches together take less than *span_ps*.

    PEs that load all the time meet each other more often at the link or memory that they share. If others hold it for
    the share u of the time, bytes take 1 / (1 - u) times as long as alone (processor sharing). They never take longer
    than the bytes of one step of all PEs together, and take as long where the part is nearly always held.
    """
    others_ps = shared.reads_ps * (1 - 1 / len(np.unique(steps.pe)))
    together_ps = shared.reads_ps // int(np.bincount(steps.pe).max())
    free = 1 - others_ps / span_ps
    saved_ps, bytes_ps = 0, steps.bytes_ps
    for _ in range(_ROUNDS):
        saved_ps = _saved_by(steps, kernels, shared, steps.latency_ps + bytes_ps)
        free_then = 1 - others_ps / (span_ps - saved_ps)
        grown_ps = np.minimum(steps.bytes_ps * free / max(free_then, _LEAST_FREE), together_ps)
        bytes_ps = (bytes_ps + np.maximum(steps.bytes_ps, grown_ps).astype(np.int64)) // 2
    if shared.reads_ps > _MOST_SHARED * (span_ps - saved_ps):
        return _saved_by(steps, kernels, shared, steps.latency_ps + np.maximum(steps.bytes_ps, together_ps))
    return saved_ps


def _saved_by(steps: _Steps, kernels: Kernels, shared: _Shared, service_ps: Ints) -> int:
    """Picoseconds that all launches together take less if the loads of each step take *service_ps*."""
    n_pes = int(kernels.pe.max()) + 1
    most = int(np.bincount(steps.pe).max(initial=1))
    before = np.roll(steps.work_ps, 1)
    loads_ps = np.maximum(steps.latency_ps + steps.bytes_ps + shared.writes_ps // most, service_ps)
    writes = np.roll(steps.writes_ps, 1) if shared.hides_writes else np.zeros_like(before)
    beside = np.maximum(np.maximum(loads_ps, writes), before - writes + steps.calls_ps)
    saved = np.where(steps.may_overlap, np.maximum(steps.waits_ps + before - beside, 0), 0)
    total = 0
    for launch in np.unique(kernels.launch):
        mine, here = kernels.launch == launch, steps.launch == launch
        ends = np.zeros(n_pes, np.int64)
        np.maximum.at(ends, kernels.pe[mine], kernels.t_end_ps[mine])
        less = np.bincount(steps.pe[here], saved[here], n_pes).astype(np.int64)
        total += int(ends.max() - (ends - less).max())
    return total


def _shared(facts: RunFacts) -> _Shared:
    nodes = facts.host.engine.topology.graph.nodes.values()
    busy = {each.kind: each.busy_ps for each in facts.usage.blocks if not each.channel}
    reads_ps, longest = max(facts.usage.links.busy_ps, default=0), (0, 0)
    for column in facts.usage.memories:
        mine = [node for node in nodes if node.memory is not None and node.memory.space.value == column.space]
        for number, node in enumerate(mine):
            of_kind = [each.id for each in nodes if each.kind is node.kind]
            held = busy.get(node.kind.value, [None] * len(of_kind))[of_kind.index(node.id)] or 0
            read, written = column.read_nbytes[number] or 0, column.written_nbytes[number] or 0
            if read + written:
                longest = max(longest, (held, held * written // (read + written)))
                reads_ps = max(reads_ps, held * read // (read + written))
    return _Shared(reads_ps, longest[1], facts.is_script)


def _dma(commands: Commands, facts: RunFacts) -> _Dma:
    graph = facts.host.engine.topology.graph
    dmas = {node.id for node in graph.nodes.values() if node.kind is NodeKind.PE_DMA}
    blocks = [block for name, block in facts.host.engine.components.items() if name in dmas]
    held = zip(graph.links, facts.usage.links.busy_ps, strict=True)
    longest_ps = max((busy_ps for link, busy_ps in held if link.dst in dmas), default=0)
    most = int(np.bincount(commands.pe, commands.nbytes).max(initial=0))
    outstanding = min((getattr(block, "outstanding", 1) for block in blocks), default=1)
    return _Dma(outstanding, longest_ps / max(most, 1))


def _has_room(times: CommandTimes, commands: Commands, host: Host) -> bool:
    """Whether the TCM of each PE that loads has room for the loads of one more step."""
    step = np.cumsum(commands.is_load & ~np.roll(commands.is_load, 1))
    more = int(np.bincount(step, np.where(commands.is_load, commands.nbytes, 0)).max(initial=0))
    for number in np.unique(commands.pe[commands.is_awaited]).tolist():
        pe = host.engine.pes[times.strings[number]]
        reserved = pe.scheduler.reserved_nbytes
        if times.tcm_nbytes(pe.tcm_owner, reserved) + more > pe.tcm_nbytes - reserved:
            return False
    return True
