"""A trace of `kb trace`, read by the classes that Perfetto's own schema generates. `nox -s extras` installs them."""

import json
from collections import defaultdict
from pathlib import Path

from click.testing import CliRunner
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

from kb_cli.main import kb
from kb_cli.trace.critical_path import path_of, segment_name
from kb_dataexec import OpLog, read_log


def run_kb(*args: object) -> str:
    done = CliRunner().invoke(kb, [str(arg) for arg in args], catch_exceptions=False)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def traced(folder: Path) -> tuple[Trace, OpLog]:
    sizes = ["-p", "M=72", "-p", "N=40", "-p", "K=56", "-p", "tile=16x16x24"]
    run_dir = Path(json.loads(run_kb("run", "gemm", *sizes, "--out", folder, "--json"))["run_dir"])
    run_kb("trace", run_dir, "-o", folder / "x.pftrace", "--unit", "ps")
    return Trace.FromString((folder / "x.pftrace").read_bytes()), read_log(run_dir / "log")


def messages_of(message: Message) -> list[Message]:
    """*message* and every message in it."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                found += messages_of(each)
    return found


def test_the_schema_knows_every_field(tmp_path: Path) -> None:
    trace, _ = traced(tmp_path)
    every = messages_of(trace)
    assert len(every) > 2 * len(trace.packet)
    assert [each for each in every if len(UnknownFieldSet(each))] == []
    assert Trace.FromString(trace.SerializeToString()) == trace


def test_slices_are_the_records_of_the_log_the_critical_path_and_what_memories_did(tmp_path: Path) -> None:
    trace, log = traced(tmp_path)
    names: dict[int, dict[int, str]] = {}
    now: dict[int, int] = {}
    values = 0
    begun: dict[int, tuple[str, int, list[int]]] = {}
    found: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        if packet.HasField("clock_snapshot"):
            assert packet.sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            names[sequence] = {each.iid: each.name for each in packet.interned_data.event_names}
            now[sequence] = packet.clock_snapshot.clocks[0].timestamp
            assert packet.clock_snapshot.clocks[0].is_incremental
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        now[sequence] += packet.timestamp
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            arguments = [each.uint_value for each in event.debug_annotations]
            begun[sequence] = names[sequence][event.name_iid], now[sequence], arguments
        elif event.type == TrackEvent.TYPE_COUNTER:
            values += 1
            assert 0 <= event.double_counter_value <= 100
        else:
            assert event.type == TrackEvent.TYPE_SLICE_END
            name, begin, arguments = begun.pop(sequence)
            found[name].append((begin, now[sequence], *arguments))
    assert begun == {}
    assert values > 0
    columns = ("t_start_ps", "t_end_ps", "op_id", "command_seq", "tile_id")
    wanted = defaultdict(list)
    for row in log.ops:
        name = f"{log.strings[row['name']]} {log.strings[row['line']]}"
        wanted[name].append(tuple(int(row[column]) for column in columns))
    path = path_of(log)
    for start, end, *texts in zip(path.start_ps, path.end_ps, path.block, path.what, path.line, strict=True):
        wanted[segment_name(*[path.strings[text] for text in texts])].append((start, end, start, end))
    of_memories = [found.pop(name) for name in list(found) if name.startswith("sip0.cube0.pe")]
    ops = {tuple(int(row[column]) for column in columns[2:]) for row in log.ops}
    assert ops.issuperset(tuple(slice_of[2:]) for slices in of_memories for slice_of in slices)
    assert found.pop("launch 0")
    assert {name: sorted(rows) for name, rows in found.items()} == {name: sorted(rows) for name, rows in wanted.items()}
