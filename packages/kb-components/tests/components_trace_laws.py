"""What holds of every trace: it is a legal interleaving, and its waits and services add up to the life of each tile."""

from collections import defaultdict
from itertools import pairwise

from kb_dataexec.analysis import all_transfers, service_parts
from kb_messages import (
    CallCause,
    CommandComplete,
    CommandSubmitted,
    EngineComplete,
    EngineStart,
    FabricTransfer,
    KernelEnd,
    KernelStart,
    LaunchEvent,
    MemorySpace,
    SubCommandDispatched,
    TileReady,
)

STAGE_EVENTS = [TileReady, EngineStart, EngineComplete]


def check_trace(events, shared_slot=True, outstanding=1):
    """All the laws. With *shared_slot* GEMM and MATH of a PE take turns. DMA channels serve *outstanding* at once."""
    times = [event.t_end_ps if isinstance(event, FabricTransfer) else event.t_ps for event in events]
    assert times == sorted(times)
    check_kernels(events)
    events = [event for event in events if not isinstance(event, LaunchEvent)]
    commands, tiles = defaultdict(list), defaultdict(list)
    for event in events:
        if isinstance(event, (CommandSubmitted, CommandComplete)):
            commands[event.command_seq].append(event)
        elif not isinstance(event, FabricTransfer):
            commands[event.command_seq].append(event)
            tiles[event.command_seq, event.tile_id].append(event)
    for command in commands.values():
        check_command(command)
    for (seq, _), life in tiles.items():
        check_tile(commands[seq][0], life)
    check_channels(events, shared_slot, outstanding)


def check_kernels(events):
    """Each starts and ends once a launch, and all its commands are submitted, and complete, in between."""
    running = {}
    for event in events:
        if isinstance(event, KernelStart):
            assert running.setdefault(event.pe, event.launch) == event.launch
        elif isinstance(event, KernelEnd):
            assert running.pop(event.pe) == event.launch
        elif isinstance(event, (CommandSubmitted, CommandComplete)):
            assert event.pe in running
    assert not running


def check_command(events):
    """Submitted before all, complete after the last of its tiles, each of which completes once."""
    first, *between, last = events
    assert isinstance(first, CommandSubmitted)
    assert isinstance(last, CommandComplete)
    done = [event for event in between if isinstance(event, EngineComplete) and event.completes_tile]
    assert sorted(event.tile_id for event in done) == list(range(first.n_tiles))
    assert last.n_tiles == first.n_tiles
    assert between[-1] is done[-1]
    assert last.t_ps == max(event.t_ps for event in done)
    op_ids = [event.op_id for event in between if isinstance(event, EngineStart)]
    assert sorted(op_ids) == list(range(first.first_op_id, first.first_op_id + first.n_ops))
    assert (first.pe, first.component, first.line) == (last.pe, last.component, last.line)


def check_tile(submitted, life):
    """Dispatch, then ready, start and end of stage after stage; no picosecond between them is without a name."""
    dispatched, *stages = life
    assert isinstance(dispatched, SubCommandDispatched)
    assert [type(event) for event in stages] == STAGE_EVENTS * (len(stages) // 3)
    assert [event.stage_index for event in stages] == [number // 3 for number in range(len(stages))]
    assert [event.op_id for event in stages] == [dispatched.op_id + number // 3 for number in range(len(stages))]
    assert [event.completes_tile for event in stages[2::3]] == [False] * (len(stages) // 3 - 1) + [True]
    assert (dispatched.component, dispatched.stage) == (stages[0].component, stages[0].stage)
    for before, after in pairwise([submitted, *life]):
        if isinstance(after, EngineComplete):
            continue  # what lies between is the service
        waits = after.waits_ps
        assert all(waited > 0 for waited in waits.values())
        assert sum(waits.values()) == after.t_ps - before.t_ps


def check_channels(events, shared_slot, outstanding):
    """Read in order, nothing starts where no service has ended to make room. One of no length holds nothing."""
    lengths, holders = {}, defaultdict(set)
    for event in events:
        if isinstance(event, (EngineStart, EngineComplete)):
            lengths[event.op_id] = event.t_ps - lengths.get(event.op_id, 0)
    for event in events:
        if not isinstance(event, (EngineStart, EngineComplete)) or not lengths[event.op_id]:
            continue
        for channel in channels_of(event, shared_slot):
            if isinstance(event, EngineStart):
                room = outstanding if event.stage in ("dma_read", "dma_write") else 1
                assert len(holders[channel]) < room, f"{event} while {holders[channel]}"
                holders[channel].add(event.op_id)
            else:
                holders[channel].remove(event.op_id)
    assert not any(holders.values())


def channels_of(event, shared_slot):
    pe = event.component.rsplit(".", 1)[0]
    yield event.component, event.stage
    if event.stage in ("fetch", "store"):
        yield pe, "TCM port"
    if event.stage in ("gemm", "math") and shared_slot:
        yield pe, "compute slot"


def check_against_records(events, records):
    """Trace and op log, written apart, agree on every time and wait."""
    of_op = defaultdict(list)
    for event in events:
        if type(event) in STAGE_EVENTS:
            of_op[event.op_id].append(event)
    assert len(of_op) == len(records)
    reasons = ("channel", "tcm_port", "register_file", "compute_slot", "operand", "barrier")
    for record in records.values():
        ready, start, end = of_op[record.op_id]
        assert (ready.t_ps, start.t_ps, end.t_ps) == (record.t_ready_ps, record.t_start_ps, record.t_end_ps)
        assert start.waits_ps == {name: ps for name, ps in zip(reasons, record.waits_ps, strict=True) if ps}
        assert (ready.stage, ready.component, ready.tile_id) == (record.name, record.component, record.tile_id)


def rows_of(log, name):
    """An auxiliary table as a dict for each row."""
    return [dict(zip(row.dtype.names, row.item(), strict=True)) for row in log.table(name)]


def check_tables(events, log):
    """The auxiliary tables say what the trace says, and every call of a kernel has a cause at its own picosecond."""
    log.check("log")
    assert log.missing == ("dependencies",)
    kernels = check_kernel_rows(events, log)
    commands = {row["command_seq"]: row for row in rows_of(log, "commands")}
    assert list(commands) == sorted(commands)
    submitted = {event.command_seq: event for event in events if isinstance(event, CommandSubmitted)}
    complete = {event.command_seq: event for event in events if isinstance(event, CommandComplete)}
    first = {}
    for event in events:
        if isinstance(event, SubCommandDispatched):
            first.setdefault(event.command_seq, event)
    assert set(commands) == set(submitted)
    for seq, row in commands.items():
        check_command_row(log, row, (submitted[seq], first[seq], complete[seq]))
        check_cause(log, row, commands, kernels)
    issue_ps = {
        (submitted[seq].pe, row["t_issued_ps"] - row["operand_ps"] - row["t_call_ps"]) for seq, row in commands.items()
    }
    assert len(issue_ps) == len({pe for pe, _ in issue_ps})
    check_dispatch_rows(events, log, submitted)
    check_transfer_rows(events, log)


def check_kernel_rows(events, log):
    rows = rows_of(log, "kernels")
    starts = [(event.launch, event.pe, event.t_ps - event.late_ps, event.t_ps) for event in events
              if isinstance(event, KernelStart)]  # fmt: skip
    ends = {(event.launch, event.pe): event.t_ps for event in events if isinstance(event, KernelEnd)}
    found = [(row["launch"], log.strings[row["pe"]], row["t_target_ps"], row["t_start_ps"]) for row in rows]
    assert sorted(found) == sorted(starts)
    assert {(row["launch"], log.strings[row["pe"]]): row["t_end_ps"] for row in rows} == ends
    return rows


def check_command_row(log, row, told):
    submitted, dispatched, complete = told
    texts = [log.strings[row[name]] for name in ("pe", "line", "name")]
    assert texts == [submitted.pe, submitted.line, submitted.name]
    numbers = [row[name] for name in ("n_tiles", "first_op_id", "n_ops", "t_submitted_ps", "operand_ps", "t_done_ps")]
    waits = submitted.waits_ps
    assert numbers == [
        submitted.n_tiles, submitted.first_op_id, submitted.n_ops, submitted.t_ps,
        waits.get("operand", 0) + waits.get("engine_queue", 0),
        complete.t_ps,
    ]  # fmt: skip
    assert row["t_submitted_ps"] - row["t_issued_ps"] == waits.get("queue_full", 0)
    names = "t_submitted_ps", "t_taken_ps", "t_decoded_ps", "t_fed_ps"
    for wait, (since, until) in zip(("submission_queue", "decode", "earlier_commands"), pairwise(names), strict=True):
        assert row[until] - row[since] == dispatched.waits_ps.get(wait, 0)


def check_cause(log, row, commands, kernels):
    """The kernel called in the picosecond in which something let it go on, and issued when its operands were ready."""
    cause = commands.get(row["after_seq"])
    times = {
        CallCause.START: lambda: max(
            each["t_start_ps"] for each in kernels if each["pe"] == row["pe"] and each["t_start_ps"] <= row["t_call_ps"]
        ),
        CallCause.SUBMISSION: lambda: cause["t_submitted_ps"],
        CallCause.COMPLETION: lambda: cause["t_done_ps"],
        CallCause.QUEUED: lambda: cause["t_issued_ps"] - cause["operand_ps"],
    }
    assert row["t_call_ps"] == times[row["after"]]()
    assert (cause is None) == (row["after"] == CallCause.START)
    assert cause is None or (cause["pe"] == row["pe"] and cause["command_seq"] < row["command_seq"])
    assert row["operand_seq"] >= 0 or row["operand_ps"] == 0
    awaited = commands.get(row["operand_seq"])
    assert awaited is None or row["t_issued_ps"] in (awaited["t_done_ps"], awaited["t_submitted_ps"])


def check_dispatch_rows(events, log, submitted):
    """A row for each tile that waited for fetches before it or for its buffers, and for no other."""
    expected = {}
    for event in events:
        waits = event.waits_ps if isinstance(event, SubCommandDispatched) else {}
        if waits.get("fetch_order") or waits.get("tile_buffer"):
            before = ("submission_queue", "decode", "earlier_commands", "earlier_tiles", "fetch_order")
            in_order = submitted[event.command_seq].t_ps + sum(waits.get(name, 0) for name in before)
            expected[event.op_id] = (in_order, in_order + waits.get("tile_buffer", 0))
    rows = rows_of(log, "dispatches")
    assert {row["op_id"]: (row["t_in_order_ps"], row["t_claimed_ps"]) for row in rows} == expected
    assert len(rows) == len(expected)


def check_transfer_rows(events, log):
    """Every DMA service is told of, and is the sum of its parts; who waited for a memory was served behind another."""
    ops = {
        record.op_id: record
        for record in log.records()
        if record.name in ("dma_read", "dma_write")
        and any(operand.space is not MemorySpace.IMMEDIATE for operand in record.operands[::2])
    }
    rows = all_transfers(log)
    parts = service_parts(log, rows)
    assert rows["op_id"].tolist() == parts["op_id"].tolist() == sorted(ops)
    assert len(set(log.table("transfers")["op_id"].tolist())) == len(log.table("transfers"))
    sums = dict.fromkeys(ops, 0)
    for name in parts.dtype.names[1:]:
        assert (parts[name] >= 0).all(), name
        for op_id, part in zip(parts["op_id"].tolist(), parts[name].tolist(), strict=True):
            sums[op_id] += part
    assert sums == {op_id: record.t_end_ps - record.t_start_ps for op_id, record in ops.items()}
    seen = sorted((event.t_start_ps, event.t_end_ps, event.src, event.dst) for event in events
                  if isinstance(event, FabricTransfer))  # fmt: skip
    told = sorted((row["t_sent_ps"].item(), ops[row["op_id"].item()].t_end_ps, ops[row["op_id"].item()].component,
                   log.strings[row["memory"]]) for row in rows)  # fmt: skip
    assert set(told) <= set(seen)
    check_behind(rows, ops)


def check_behind(rows, ops):
    """A request that waited began when the one before it left the memory free, if that one came as a whole."""
    row_of = {row["op_id"].item(): row for row in rows}
    waited = rows["t_served_ps"] > rows["t_arrived_ps"]
    assert ((rows["behind_op"] >= 0) <= waited).all()
    for row in rows[waited & (rows["behind_op"] >= 0)]:
        before = row_of[row["behind_op"].item()]
        assert row["memory"] == before["memory"]
        assert row["op_id"] != before["op_id"]
        if ops[before["op_id"].item()].name == "dma_read":
            assert row["t_served_ps"] == before["t_served_ps"] + before["t_last_ps"] - before["t_first_ps"]
        elif before["t_first_ps"] > before["t_arrived_ps"] and before["t_served_ps"] < row["t_served_ps"]:
            assert row["t_served_ps"] == before["t_first_ps"]
