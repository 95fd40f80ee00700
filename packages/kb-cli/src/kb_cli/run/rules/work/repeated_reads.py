"""RepeatedReads: bytes that a PE loads again, although its TCM has room to keep them."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.chip_places import tensor_numbers, tensor_starts
from kb_cli.run.rules.rule import Rule
from kb_cli.run.rules.run_facts import RunFacts
from kb_cli.run.rules.work.command_times import Ints
from kb_cli.run.rules.work.op_sums import first_operands, hashed, ops_named
from kb_cli.run.rules.work.path_time import FIXED_WORK, LINK_WORK, MEMORY_WORK, PathTime
from kb_dataexec import OpLog
from kb_engine import Host, Tensor
from kb_messages import Role

_READ, _WRITE = "dma_read", "dma_write"
_MOST_ROWS: Final = 1 << 18
"""Rows of rectangles after which equal ones are added up. Source: assumed; 20 MB."""
_MOST_OPAQUE: Final = 0.1
"""The share of a memory's work on the path of which the parts may be unknown. Source: assumed; half of the error that
an estimate may have."""
_LEAST_STEPS: Final = 3
"""Steps of loads that run ahead which the path must have, if the loads are to set its time. Source: assumed."""
Array = npt.NDArray[np.void]
_TRANSFERS: Final = FIXED_WORK | LINK_WORK | MEMORY_WORK


class _Reads(NamedTuple):
    """Rectangles that a DMA read, in columns. `key` is equal for equal rectangles of one DMA.

    `component` and `line` number strings. `owner` and `offset` say where the rectangle begins, and `place` is the
    offset in the TCM to which it was first loaded. `n_reads` and `took_ps` are those of all its reads.
    """

    key: Ints
    component: Ints
    line: Ints
    owner: Ints
    offset: Ints
    place: Ints
    nbytes: Ints
    n_reads: Ints
    took_ps: Ints


class _Again(NamedTuple):
    """The reads of `tensor` at one kernel line beyond the first of each rectangle.

    `kept_nbytes` is the most that one PE has to keep for them. `n_reads` and `took_ps` are those of the reads that go,
    and `read_nbytes` the bytes. A rectangle was read up to `n_times`.
    """

    line: str
    tensor: Tensor
    kept_nbytes: int
    n_reads: int
    took_ps: int
    read_nbytes: int
    n_times: int


class RepeatedReads(Rule):
    """Finds rectangles that a PE loads several times from a tensor that no kernel writes.

    A program that loads them once and keeps them in TCM saves all loads but the first, if TCM has room for them beside
    all bytes that the kernel has held there. TCM does not outlive a launch, so each launch loads them once. Reads of
    composites do not count, because the tile buffers keep nothing.

    The gain of a line is the share of its transfers on the critical path that the repeated loads have of the time of
    all its transfers, and the share of issue and decoding that they have of its commands. Of loads that run ahead, the
    path has at least those of the first step, which stay. The run does not become shorter than the commands of any PE
    besides its loads, where a kernel waits for each, nor than the service of the busiest block or link, of which links
    carry fewer bytes. Nothing is said where a memory does not say how long bytes hold it, such as one with rows: fewer
    reads change the cost of all others.
    """

    def __init__(self) -> None:
        self._found: list[_Reads] = []
        self._n_rows = 0
        self._written: set[tuple[int, int]] = set()
        self._strings: list[str] = []
        self._writes_ps: dict[int, int] = defaultdict(int)

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._strings = chunk.strings
        self._look_at_writes(chunk, ops_named(chunk, _WRITE, first_tiles=True))
        ops = ops_named(chunk, _READ, first_tiles=True)
        if not len(ops):
            return
        rows, row_nbytes, _, owner, offset, stride = first_operands(chunk, ops["op_id"], Role.SRC)
        place = first_operands(chunk, ops["op_id"], Role.DST)[4]
        component = ops["component"].astype(np.int64)
        key = hashed([component, owner, offset, rows, row_nbytes, stride]).view(np.int64)
        took = ops["t_end_ps"] - ops["t_start_ps"]
        line, ones = ops["line"].astype(np.int64), np.ones(len(ops), np.int64)
        self._add(_Reads(key, component, line, owner, offset, place, rows * row_nbytes, ones, took))

    def _look_at_writes(self, chunk: OpLog, ops: Array) -> None:
        if not len(ops):
            return
        *_, owner, offset, _ = first_operands(chunk, ops["op_id"], Role.DST)
        _, first = np.unique(hashed([owner, offset]), return_index=True)
        self._written.update(zip(owner[first].tolist(), offset[first].tolist(), strict=True))
        lines, which = np.unique(ops["line"], return_inverse=True)
        took = np.bincount(which, ops["t_end_ps"] - ops["t_start_ps"], len(lines))
        for line, ps in zip(lines.tolist(), took.tolist(), strict=True):
            self._writes_ps[line] += int(ps)

    def _add(self, reads: _Reads) -> None:
        self._found.append(_summed(reads))
        self._n_rows += len(reads.key)
        if self._n_rows > _MOST_ROWS:
            self._found = [self._reads()]
            self._n_rows = len(self._found[0].key) // 2  # a log of rectangles that are all distinct is added up rarely

    def _reads(self) -> _Reads:
        return _summed(_Reads(*map(np.concatenate, zip(*self._found, strict=True))))

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy of the flaw, or None for a run without the flaw."""
        if not self._found:
            return None
        reads = self._reads()
        path = PathTime(facts)
        if path.opaque > _MOST_OPAQUE:
            return None
        found = [
            (self._gain(each, reads, facts, path), each)
            for each in self._again(reads, facts.host, len(facts.launches))
            if self._has_room(each, facts)
        ]
        gain, again = max(found, key=lambda each: each[0], default=(0.0, None))
        if again is None or not gain:
            return None
        once = "once in each launch" if len(facts.launches) > 1 else "once"
        kernels = facts.commands.kernels
        many = len(kernels.pe) > len(np.unique(kernels.launch * (int(kernels.pe.max(initial=0)) + 1) + kernels.pe))
        how = "let one program of each PE take its blocks in a loop, and load" if many else "load"
        return Remedy(
            rule="bytes read again",
            part=again.tensor.name,
            flaw=f"PEs load {again.read_nbytes:,} bytes of {again.tensor.name} again, which they had loaded before",
            change=f"{how} them {once}, before the loop: they take {again.kept_nbytes:,} bytes of a TCM",
            gain=gain,
            basis="estimated",
            line=again.line,
        )

    def _again(self, reads: _Reads, host: Host, n_launches: int) -> list[_Again]:
        """The repeated reads by tensor and line, of tensors that no kernel writes."""
        places = np.array(sorted(self._written), np.int64).reshape(-1, 2)
        starts = tensor_starts(host)
        written = np.unique(tensor_numbers(starts, places[:, 0], places[:, 1]))
        number = tensor_numbers(starts, reads.owner, reads.offset)
        is_again = (reads.n_reads > n_launches) & (reads.place >= _reserved_nbytes(host))
        is_again &= (number >= 0) & ~np.isin(number, written)
        by_line = np.unique(np.stack([number, reads.line])[:, is_again], axis=1).T.tolist()
        found = []
        for tensor, line in by_line:
            rows = np.flatnonzero(is_again & (number == tensor) & (reads.line == line))
            more = reads.n_reads[rows] - n_launches
            took = reads.took_ps[rows] * more // reads.n_reads[rows]
            kept = np.bincount(reads.component[rows], reads.nbytes[rows])
            nbytes = int((more * reads.nbytes[rows]).sum())
            totals = int(kept.max()), int(more.sum()), int(took.sum()), nbytes, int(reads.n_reads[rows].max())
            found.append(_Again(self._strings[line], host.tensors[tensor], *totals))
        return found

    def _gain(self, again: _Again, reads: _Reads, facts: RunFacts, path: PathTime) -> float:
        line = self._strings.index(again.line)
        moved: float = path.by_line(lambda row: row.what in _TRANSFERS)[again.line]
        called: float = path.by_line(lambda row: row.what in ("issue", "decode"))[again.line]
        at_line = reads.line == line
        took_ps = int(reads.took_ps[at_line].sum()) + self._writes_ps[line]
        commands = facts.commands.commands
        if commands is not None:
            here = commands.line == line
            if (commands.is_load & here).sum() > (commands.is_awaited & here).sum() * 2:
                a_step_ps = np.bincount(reads.component[at_line], reads.took_ps[at_line]).max() / again.n_times
                moved, called = (moved - float(a_step_ps) if moved > _LEAST_STEPS * a_step_ps else 0), 0
            called = called * min(again.n_reads / max(int(here.sum()), 1), 1)
        left = 1 - again.read_nbytes / max(int((reads.n_reads * reads.nbytes).sum()), 1)
        nodes = facts.host.engine.topology.graph.nodes.values()
        memories = {node.kind.value for node in nodes if node.memory is not None}
        least_ps = max(
            facts.commands.work_ps, path.busiest_ps(memories, False), max(facts.usage.links.busy_ps, default=0) * left
        )
        return path.gain(moved * again.took_ps / max(took_ps, 1) + called, least_ps)

    def _has_room(self, again: _Again, facts: RunFacts) -> bool:
        """Whether the TCM of every PE has room for the kept bytes, beside all bytes that commands wrote there."""
        for pe in facts.host.engine.pes.values():
            reserved = pe.scheduler.reserved_nbytes
            used = facts.commands.tcm_nbytes(pe.tcm_owner, reserved)
            if used and used + again.kept_nbytes > pe.tcm_nbytes - reserved:
                return False
        return True


def _summed(reads: _Reads) -> _Reads:
    """Adds up the rows of *reads* with equal keys. The other columns are those of the first row."""
    _, first, which = np.unique(reads.key, return_index=True, return_inverse=True)
    count, took = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    np.add.at(count, which, reads.n_reads)
    np.add.at(took, which, reads.took_ps)
    return _Reads(*(column[first] for column in reads))._replace(n_reads=count, took_ps=took)


def _reserved_nbytes(host: Host) -> int:
    """The bytes at the beginning of a TCM that are tile buffers."""
    return max((pe.scheduler.reserved_nbytes for pe in host.engine.pes.values()), default=0)
