"""events_of: the cause of every event inside PEs, as expressions over columns.

Each rule says which earlier event an event waited for. QueueLeaving and ServiceEnds find the op that left a queue, or
whose service ended, at a given time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.analysis.critical_path.events import (
    CommandEvent,
    KernelEvent,
    OpEvent,
    PathEvents,
    SyncEvent,
    Work,
)
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.sync_causes import explain_syncs
from kb_dataexec.analysis.critical_path.timestamp_index import TimestampIndex
from kb_dataexec.analysis.critical_path.transfer_parts import TransferParts
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_messages import CallCause, StageType


class QueueLeaving:
    """Finds the op whose tile left a queue at a given time."""

    def __init__(self, rows: PathRows) -> None:
        ops = rows.ops
        enters = ops.is_first.copy()
        enters[1:] |= ops.server[1:] != ops.server[:-1]
        entered = ops.t_ready[np.maximum.accumulate(np.where(enters, np.arange(len(ops)), 0))]
        turn = np.empty(len(ops), np.int64)
        turn[np.argsort(entered, kind="stable")] = np.arange(
            len(ops)
        )  # a transfer of no bytes is recorded when it enters
        self._which = np.flatnonzero(ops.leaves)
        order = np.argsort(ops.row[self._which], kind="stable")  # of two tiles, the later record is last
        self._which = self._which[order]
        self._row, self._turn = ((place, place[self._which]) for place in (ops.row, turn))
        self._times = TimestampIndex(ops.server[self._which], ops.t_out[self._which])

    def last_before(self, server: Array, time: Array, op: Array) -> Array:
        """Returns the op whose tile left *server* at *time*, the last one recorded before *op*; -1 for none."""
        return self._last(server, time, op, self._row)

    def last_ahead(self, server: Array, time: Array, op: Array) -> Array:
        """Returns the op whose tile left *server* at *time*, the last one that came to the queue before *op*; -1 for
        none.

        A later transfer may leave first.
        """
        return self._last(server, time, op, self._turn)

    def _last(self, server: Array, time: Array, op: Array, places: tuple[Array, Array]) -> Array:
        of_ops, of_times = places
        at = self._times.last_before(server, time, of_times, of_ops[op])
        return np.where(at < 0, -1, self._which[at]) if len(self._which) else at


class ServiceEnds:
    """Finds the op whose service ended in a group at a given time. Services that took time come before others."""

    def __init__(self, rows: PathRows, group: Array, stages: Sequence[StageType], those: Array | None = None) -> None:
        ops, strings = rows.ops, rows.log.strings
        names = {stage.name.lower() for stage in stages}
        is_wanted = np.array([not stages or strings[name] in names for name in ops.servers[1].tolist()], np.bool_)
        is_wanted = is_wanted[ops.server]
        if those is not None:
            is_wanted &= those
        took_time = ops.t_end > ops.t_start
        self._parts = []
        for part in (took_time, ~took_time):
            which = np.flatnonzero(is_wanted & part)
            self._parts.append((which, TimestampIndex(group[which], ops.t_end[which])))

    def at(self, group: Array, time: Array, before: Array | None) -> tuple[Array, Array]:
        """Returns the first op whose service ended in *group* at *time*, -1 for none, and whether there were several.

        With *before*, an op that took no time has to come before the op *before*.
        """
        found, is_tie = np.full(len(group), -1, np.int64), np.zeros(len(group), np.bool_)
        for which, times in self._parts:
            at, several = times.first(group, time)
            ops = np.where(at < 0, -1, which[at]) if len(which) else at
            fits = (found < 0) & (ops >= 0)
            if which is self._parts[1][0] and before is not None:
                fits &= ops < before
            is_tie |= (found >= 0) & (ops >= 0) | fits & several
            found[fits] = ops[fits]
        return found, is_tie


_GATES = (
    ("compute_slot", (StageType.GEMM, StageType.MATH)),
    ("tcm_port", (StageType.FETCH, StageType.STORE)),
    ("register_file", (StageType.GEMM, StageType.MATH, StageType.STORE)),
)
"""The gates, starting with the gate that a service passes last, and the stages whose ends open them."""


_COMMAND_EVENTS = {
    CallCause.SUBMISSION: CommandEvent.SUBMITTED,
    CallCause.COMPLETION: CommandEvent.DONE,
    CallCause.QUEUED: CommandEvent.CALL,
}
"""The event of an earlier command that let a kernel go on."""


def events_of(rows: PathRows, transfers: TransferParts) -> PathEvents:
    """Returns all events of *rows* with their causes. A request that waited for a memory follows the request before."""
    return _Causes(rows, transfers).events


class _Causes:
    def __init__(self, rows: PathRows, transfers: TransferParts) -> None:
        self.rows, self.ops, self.commands = rows, rows.ops, rows.commands
        self.transfers = transfers
        self.events = PathEvents(rows)
        self.all_commands = np.arange(len(self.commands))
        self.left = QueueLeaving(rows)
        self._set_times()
        self._explain_ends()
        self._explain_leaving()
        self._explain_starts()
        self._explain_dispatch()
        self._explain_commands()
        self._explain_submission()
        self._explain_calls()
        explain_syncs(self.events, rows, transfers)
        self._explain_kernels()
        self._explain_next_programs()

    def op(self, event: OpEvent, ops: Array) -> Array:
        """The numbers of the events *event* of *ops*; -1 for op -1."""
        return np.where(ops < 0, -1, self.events.numbers.op(event, ops))

    def command(self, event: CommandEvent, commands: Array) -> Array:
        """The numbers of the events *event* of *commands*; -1 for command -1."""
        return np.where(commands < 0, -1, self.events.numbers.command(event, commands))

    def ended(self, group: Array, stages: Sequence[StageType] = ()) -> ServiceEnds:
        """The ends of the services of *stages*, or of all stages, by *group*."""
        return ServiceEnds(self.rows, group, stages)

    def _set_times(self) -> None:
        time, numbers, ops, commands = self.events.time, self.events.numbers, self.ops, self.commands
        served = ops.t_start.copy()
        served[self.transfers.op] = self.transfers.served_ps
        for event, times in zip(OpEvent, (ops.t_ready, ops.t_start, ops.t_end, ops.t_out, served), strict=True):
            time[numbers.all_ops(event)] = times
        times_of = commands.t_call, commands.t_issued, commands.t_submitted, commands.t_taken
        later = commands.t_decoded, commands.t_fed, commands.t_done
        for step, times in zip(CommandEvent, (*times_of, *later), strict=True):
            time[numbers.command(step, self.all_commands)] = times
        kernels = self.rows.kernels
        every = np.arange(len(kernels))
        time[numbers.kernel(KernelEvent.START, every)] = kernels["t_start_ps"]
        time[numbers.kernel(KernelEvent.END, every)] = kernels["t_end_ps"]
        syncs = self.rows.syncs
        of_syncs = syncs.t_called, syncs.t_issued, syncs.t_went_on, syncs.t_between, syncs.t_origin
        for moment, times in zip(SyncEvent, of_syncs, strict=True):
            time[numbers.sync(moment, np.arange(len(syncs)))] = times

    def _explain_ends(self) -> None:
        """A service ended: it worked since its start, or since the memory was done with the request before."""
        every, transfers = self.events.numbers.all_ops, self.transfers
        waited = transfers.behind >= 0
        op, behind = transfers.op[waited], transfers.behind[waited]
        served = self.op(OpEvent.SERVED, op)
        self.events.work_since(self.op(OpEvent.END, op), served, Work.SERVICE)
        self.events.work_since(served, self.op(OpEvent.SERVED, behind), Work.MEMORY, "memory")
        self.events.work_since(every(OpEvent.SERVED), every(OpEvent.START), Work.SERVICE)
        self.events.work_since(every(OpEvent.END), every(OpEvent.START), Work.SERVICE)

    def _explain_leaving(self) -> None:
        """A tile left: after its service ended, the tile before it left, or the next queue got room."""
        events, ops, every = self.events, self.ops, self.events.numbers.all_ops
        left, ended = every(OpEvent.LEFT), every(OpEvent.END)
        events.explain(left, ended)
        late = np.flatnonzero((ops.t_out > ops.t_end) & ~ops.is_last)
        before = self.left.last_before(ops.server[late], ops.t_out[late], late)
        before = np.where(before < late, before, -1)
        left_after = self.op(OpEvent.LEFT, late)
        events.explain(left_after, self.op(OpEvent.LEFT, before), "transfer_order")
        made_room = self.left.last_before(ops.server[late + 1], ops.t_out[late], late)
        events.explain(left_after, self.op(OpEvent.LEFT, made_room), "queue_full")
        events.give_up(left, ended)

    def _explain_starts(self) -> None:
        """A service started: after the tile came, a gate opened, the block became free, or a set-up before it ended."""
        events, ops, every = self.events, self.ops, np.arange(len(self.ops))
        started, ready = events.numbers.all_ops(OpEvent.START), events.numbers.all_ops(OpEvent.READY)
        waited = np.flatnonzero(ops.t_start > ops.t_ready)
        order = np.lexsort((ops.t_start, ops.server))
        freed = np.empty(len(every), np.int64)

        def find_freed(chunk: slice) -> None:
            mine = order[chunk]  # neighbours are found quickly
            freed[mine] = self.left.last_ahead(ops.server[mine], ops.t_start[mine], mine)

        in_chunks(find_freed, len(order))
        at_once = ops.t_start == ops.t_ready
        events.explain(started, ready, tie=at_once & (freed >= 0))
        for gate, stages in _GATES:
            late = waited[ops.waited[gate][waited]]
            ends, is_tie = self.ended(ops.pe, stages).at(ops.pe[late], ops.t_start[late], late)
            events.explain(self.op(OpEvent.START, late), self.op(OpEvent.END, ends), gate, is_tie)
            events.give_up(self.op(OpEvent.START, late), self.op(OpEvent.READY, late))
        known = waited[(ops.waited["operand"] | ops.waited["barrier"])[waited]]
        events.give_up(self.op(OpEvent.START, known), self.op(OpEvent.READY, known))
        events.explain(self.op(OpEvent.START, waited), self.op(OpEvent.LEFT, freed[waited]), "throughput")
        before = np.full(len(every), -1, np.int64)
        overlaps = (ops.server[order[1:]] == ops.server[order[:-1]]) & (ops.t_end[order[:-1]] >= ops.t_start[order[1:]])
        before[order[1:][overlaps]] = order[:-1][overlaps]
        before = before[waited]
        events.work_since(self.op(OpEvent.START, waited), self.op(OpEvent.START, before), Work.SERVICE, "throughput")
        events.give_up(started, ready)

    def _explain_dispatch(self) -> None:
        """A tile came: from its stage before, or it was fed after the last of its waits."""
        events, ops, commands = self.events, self.ops, self.commands
        later = np.flatnonzero(~ops.is_first)
        came = self.op(OpEvent.READY, later)
        events.explain(came, self.op(OpEvent.LEFT, later - 1), "data")
        events.give_up(came, self.op(OpEvent.END, later - 1))
        first = np.flatnonzero(ops.is_first)
        ready = self.op(OpEvent.READY, first)
        fed = self.command(CommandEvent.FED, ops.command[first])
        before = ops.tile_before[first]
        turn = np.where(before < 0, commands.t_fed[ops.command[first]], ops.t_ready[before])
        in_order, claimed = turn.copy(), turn.copy()
        waited = self.rows.optional("dispatches")
        waited = waited[np.isin(ops.find(waited["op_id"]), first)]
        which = np.searchsorted(first, ops.find(waited["op_id"]))
        in_order[which], claimed[which] = waited["t_in_order_ps"], waited["t_claimed_ps"]
        full = np.flatnonzero(ops.t_ready[first] > claimed)
        if "dispatches" not in self.rows.missing:
            made_room = self.left.last_before(ops.server[first[full]], ops.t_ready[first[full]], first[full])
            events.explain(ready[full], self.op(OpEvent.LEFT, made_room), "queue_full")
        events.give_up(ready[full], fed[full])
        for late, edge, *kinds in (
            (claimed > in_order, "tile_buffer", (StageType.FETCH, StageType.DMA_WRITE)),
            (in_order > turn, "fetch_order", (StageType.FETCH,), (StageType.MATH,)),
        ):
            tiles = first[late]
            for stages in kinds:
                ends, is_tie = self.ended(ops.pe, stages).at(ops.pe[tiles], ops.t_ready[tiles], tiles)
                events.explain(ready[late], self.op(OpEvent.END, ends), edge, is_tie)
            events.give_up(ready[late], fed[late])
        events.explain(ready, self.op(OpEvent.READY, before))
        events.explain(ready, fed)
        events.give_up(ready, fed)

    def _explain_commands(self) -> None:
        """A command was taken, decoded, fed, and done."""
        events, ops, commands, every = self.events, self.ops, self.commands, self.all_commands
        fed, decoded = self.command(CommandEvent.FED, every), self.command(CommandEvent.DECODED, every)
        taken, submitted = self.command(CommandEvent.TAKEN, every), self.command(CommandEvent.SUBMITTED, every)
        last_tile, before = self.rows.last_tile, self.rows.turns.before
        events.explain(fed, decoded, "dispatch")
        events.explain(fed, self.op(OpEvent.READY, np.where(before < 0, -1, last_tile[before])), "earlier_commands")
        events.give_up(fed, decoded)
        events.work_since(decoded, taken, Work.DECODE)
        events.explain(taken, submitted)
        events.explain(taken, self.command(CommandEvent.DECODED, before), "submission_queue")
        events.give_up(taken, submitted)
        done = self.command(CommandEvent.DONE, every)
        ends = ServiceEnds(self.rows, ops.command, (), ops.is_last)
        op, is_tie = ends.at(every, commands.t_done, None)
        events.explain(done, self.op(OpEvent.END, op), tie=is_tie)
        events.give_up(done, fed)

    def _explain_submission(self) -> None:
        """A command was submitted: after the queue had room, or after it was issued and its operands were there."""
        events, commands, every = self.events, self.commands, self.all_commands
        submitted, issued = self.command(CommandEvent.SUBMITTED, every), self.command(CommandEvent.ISSUED, every)
        events.explain(submitted, issued, "submission")
        taking = TimestampIndex(commands.pe, commands.t_taken)
        turn = self.rows.turns.number
        made_room = taking.last_before(commands.pe, commands.t_submitted, turn, turn)
        events.explain(submitted, self.command(CommandEvent.TAKEN, made_room), "submission_queue")
        events.give_up(submitted, issued)
        waited = commands.operand_ps > 0
        awaited = commands.operand_index[waited]
        events.explain(issued[waited], self.command(CommandEvent.DONE, awaited), "operand")
        events.explain(issued[waited], self.command(CommandEvent.SUBMITTED, awaited), "engine_queue")
        called = self.command(CommandEvent.CALL, every)
        events.give_up(issued[waited], called[waited])
        events.work_since(issued, called, Work.ISSUE)

    def _explain_calls(self) -> None:
        """A kernel called: a command, or a call that waits or signals."""
        rows, commands, syncs = self.rows, self.commands, self.rows.syncs
        called = self.command(CommandEvent.CALL, self.all_commands)
        before = syncs.before_commands(commands.pe, commands.seq)
        self._explain_call(called, commands.after, commands.after_index, rows.kernel_of, before)
        called = self.events.numbers.sync(SyncEvent.CALLED, np.arange(len(syncs)))
        after = commands.find(syncs.cause_seq)
        self._explain_call(called, syncs.cause, after, syncs.programs(rows.kernels), syncs.before)

    def _explain_call(self, called: Array, after: Array, command: Array, kernel: Array, sync: Array) -> None:
        """The kernel made the call *called* after it began, after an earlier *command*, or after the call *sync*.

        *after* are the causes, and *kernel* are the programs. The call *sync* was the last one before that waited or
        signalled. It came later than the cause if the kernel went on later from it.
        """
        events = self.events
        begun = np.where(kernel < 0, -1, events.numbers.kernel(KernelEvent.START, kernel))
        cause = np.full(len(called), -1)
        for kind, event in _COMMAND_EVENTS.items():
            cause = np.where(after == kind, self.command(event, command), cause)
        cause = np.where(after == CallCause.START, begun, cause)
        went_on = np.where(sync < 0, -1, events.numbers.sync(SyncEvent.WENT_ON, sync))
        later = np.flatnonzero((went_on >= 0) & ((cause < 0) | (events.time[went_on] > events.time[cause])))
        events.explain(called[later], went_on[later], "program")
        mine = after == CallCause.QUEUED
        events.work_since(called[mine], cause[mine], Work.ISSUE, "program")
        events.explain(called, cause, "program")
        mine = after == CallCause.START
        events.work_since(called[mine], begun[mine], Work.PROGRAM, "program")
        events.give_up(called, begun)

    def _explain_kernels(self) -> None:
        """A program ended: after its last command was done, after its last call, or, without calls, after it began."""
        events, rows = self.events, self.rows
        kernels, kernels_pe = np.arange(len(rows.kernels)), rows.kernels["pe"].astype(np.int64)
        ended, begun = (events.numbers.kernel(event, kernels) for event in (KernelEvent.END, KernelEvent.START))
        done, is_tie = TimestampIndex(rows.kernel_of, self.commands.t_done).first(kernels, rows.kernels["t_end_ps"])
        syncs = rows.syncs
        went_on, _ = TimestampIndex(syncs.pe, syncs.t_went_on).first(kernels_pe, rows.kernels["t_end_ps"])
        last = np.where(went_on < 0, -1, events.numbers.sync(SyncEvent.WENT_ON, went_on))
        events.explain(ended, self.command(CommandEvent.DONE, done), "end", is_tie | (done >= 0) & (went_on >= 0))
        events.explain(ended, last, "end")
        events.explain(ended, begun, "end")
        if "commands" not in rows.missing:
            idle = rows.is_idle
            events.work_since(ended[idle], begun[idle], Work.PROGRAM, "end")
        events.give_up(ended, begun)

    def _explain_next_programs(self) -> None:
        """A PE began its next program: after the program before it issued its last command, or waited for a command.

        The last command was submitted, or was issued to the queue of its engine; or a command that the kernel waited
        for was done.
        """
        events, rows, commands = self.events, self.rows, self.commands
        later = np.flatnonzero(rows.program_before >= 0)
        before = rows.program_before[later]
        began, begun = (events.numbers.kernel(KernelEvent.START, kernels) for kernels in (later, before))
        last = rows.last_command[before]
        events.explain(began, self.command(CommandEvent.SUBMITTED, last), "program")
        pes, times = rows.kernels["pe"][later].astype(np.int64), rows.kernels["t_start_ps"][later]
        done, is_tie = TimestampIndex(commands.pe, commands.t_done).first(pes, times)
        events.explain(began, self.command(CommandEvent.DONE, done), "program", is_tie)
        events.work_since(began, self.command(CommandEvent.CALL, last), Work.ISSUE, "program")
        events.work_since(began[last < 0], begun[last < 0], Work.PROGRAM, "program")
        events.give_up(began, begun)
