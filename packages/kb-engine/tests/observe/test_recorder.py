"""The log that is written in chunks says what a plain walk over the plan's tiles says."""

from itertools import pairwise

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_messages import (
    MemorySpace,
    Operand,
    OpKind,
    PhysAddr,
    Place,
    StageType,
    WaitReason,
    rectangle,
    split_address,
)

TIMES = ("t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps")
ARRAYS = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32}


WAITING = (
    ("ps_per_byte: 20, latency_ps: 30000", "ps_per_byte: 0, latency_ps: 0"),
    ("bw_gbs: 100", "bw_gbs: 100000"),
    ("impl: toy.gemm}", "impl: toy.slow_gemm, queue_depth: 1}"),
)
"""Reads so quick and GEMM so slow that queues are full and the port is waited for."""


def multiply(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=(16, 24, 8))


def mixed(tl, a, b, c):
    x = tl.load(a[0:3, 1:7])
    tl.composite("gemm", a, b, out=c, tile=(16, 24, 8))
    tl.store(a[3:6, 2:8], x)
    tl.composite("gemm", b, a[0:30], tile=(8, 8, 40))


def loads(tl, a, b, c):
    for row in range(40):
        tl.free(tl.load(a[row : row + 1]))


def loop(tl, a, b, c):
    """Commands of one structure between others: equal loads, composites of equal shape, a ragged one."""
    for row in range(tl.program_id(), 12, 2):
        x = tl.load(a[row : row + 2, 3:9])
        tl.composite("gemm", a[row : row + 9], b, out=c[row : row + 9], tile=(4, 24, 8))
        tl.store(a[row + 2 : row + 4, 3:9], x)
        tl.free(x)
    tl.composite("gemm", a[12:20], b, out=c[12:20], tile=(4, 24, 8))


def run(toy_host, kernel, m=40, n=30, k=30, dtype="f16", changes=(), pes=None):
    writer, contexts = MemoryLogWriter(), []
    host = toy_host(*changes, writer=writer)
    open_command = host.engine.session.open_command

    def keep(*arguments):
        contexts.append(open_command(*arguments))
        return contexts[-1]

    host.engine.session.open_command = keep
    shapes = (m, k), (k, n), (m, n)
    out = "i32" if dtype == "i8" else dtype
    tensors = [
        host.tensor(name, np.zeros(shape, ARRAYS[kind]), kind)
        for name, shape, kind in zip("abc", shapes, (dtype, dtype, out), strict=True)
    ]
    host.launch(kernel, *tensors, pes=pes)
    return host.engine, contexts, host.engine.close_log()


def expected_operands(engine, context, tile, template):
    """Operands of one stage of one tile, from the plan and the command's buffer slots."""
    pe, slots, grid = engine.pes[context.submitted.pe], context.placement, context.plan.grid
    place = (tile.m, tile.n, tile.k)
    mn = tile.tile_id // grid[2]
    homes = {
        Place.INPUT_BUFFER: (MemorySpace.TCM, pe.tcm_owner, slots.input, tile.tile_id),
        Place.OUTPUT_BUFFER: (MemorySpace.TCM, pe.tcm_owner, slots.output, mn),
        Place.REGISTERS: (MemorySpace.REG, pe.reg_owner, slots.registers, tile.tile_id),
        Place.ACCUMULATOR: (MemorySpace.REG, pe.reg_owner, slots.accumulators, mn),
    }
    for operand in template.operands:
        if not operand.when.holds(tile.k, grid[2]):
            continue
        at = rectangle(operand, place)
        if operand.place is Place.MEMORY:
            space, (owner, offset) = PhysAddr.decode(at.base).space, split_address(at.base)
        else:
            space, owner, ring, number = homes[operand.place]
            offset = ring.offset(number) + at.base
        yield Operand(
            role=operand.role,
            space=space,
            owner=owner,
            offset=offset,
            rows=at.rows,
            row_nbytes=at.row_nbytes,
            stride=at.stride,
            dtype=operand.dtype,
            release=operand.release,
        )


def expected_records(engine, contexts):
    """Everything but times, one record after the other."""
    op_id = 0
    for context in contexts:
        for tile in context.plan.tiles:
            templates = [t for t in context.plan.stages if t.when.holds(tile.k, context.plan.grid[2])]
            for number, template in enumerate(templates):
                is_gemm = template.stage_type is StageType.GEMM
                yield {
                    "op_id": op_id,
                    "command_seq": context.submitted.command_seq,
                    "tile_id": tile.tile_id,
                    "stage_index": number,
                    "kind": OpKind.GEMM if is_gemm else OpKind.MEMORY,
                    "name": template.stage_type.name.lower(),
                    "component": template.component,
                    "line": context.submitted.line,
                    "params": '{"accumulate":true}' if is_gemm and tile.k else "{}",
                    "operands": tuple(expected_operands(engine, context, tile, template)),
                }
                op_id += 1


def without_times(record):
    skipped = {*TIMES, "waits_ps"}
    return {name: getattr(record, name) for name in record.__struct_fields__ if name not in skipped}


@pytest.mark.parametrize("dtype", ["f16", "f32", "i8"])
@pytest.mark.parametrize("kernel", [multiply, mixed, loop])
@pytest.mark.parametrize("pes", [[0], [0, 1]])
def test_records_are_those_of_the_plans_tiles(toy_host, kernel, dtype, pes):
    two = (("pe_layout: {count: 1}", "pe_layout: {count: 2}"),)
    engine, contexts, log = run(toy_host, kernel, dtype=dtype, changes=two, pes=pes)
    records = sorted(log.records(), key=lambda record: record.op_id)
    assert [without_times(record) for record in records] == list(expected_records(engine, contexts))
    assert len(records) == engine.session.n_ops


def test_waits_add_up_and_stages_follow_each_other(toy_host):
    _, _, log = run(toy_host, mixed, changes=WAITING)
    records = sorted(log.records(), key=lambda record: record.op_id)
    for record in records:
        assert record.t_ready_ps <= record.t_start_ps <= record.t_end_ps <= record.t_out_ps
        assert sum(record.waits_ps) == record.t_start_ps - record.t_ready_ps
        assert min(record.waits_ps) >= 0
    for before, record in pairwise(records):
        if (before.command_seq, before.tile_id) == (record.command_seq, record.tile_id):
            assert before.t_out_ps == record.t_ready_ps
    total = np.sum([record.waits_ps for record in records], axis=0)
    assert total[WaitReason.CHANNEL] > 0
    assert total[WaitReason.TCM_PORT] > 0


def test_rows_stand_in_the_order_of_completion(toy_host):
    _, _, log = run(toy_host, multiply)
    assert (np.diff(log.ops["t_out_ps"]) >= 0).all()


def test_operands_stand_in_the_order_of_their_ops(toy_host):
    _, _, log = run(toy_host, mixed)
    kept = log.ops["op_id"].repeat([np.count_nonzero(log.operands["op_id"] == each) for each in log.ops["op_id"]])
    np.testing.assert_array_equal(log.operands["op_id"], kept)


@pytest.mark.parametrize("kernel", [mixed, loop])
@pytest.mark.parametrize("interval", [1, 7])
def test_how_the_log_is_cut_into_chunks_leaves_no_trace(toy_host, monkeypatch, interval, kernel):
    engine, _, whole = run(toy_host, kernel, changes=WAITING)
    chunks = []
    monkeypatch.setattr("kb_engine.timing.clock.HOUSEKEEPING_INTERVAL", interval)
    monkeypatch.setattr("kb_engine.observe.recorder._CHUNK_RECORDS", 5)
    monkeypatch.setattr("kb_engine.observe.recorder._CHUNK_RECORDS_A_PE", 5)
    monkeypatch.setattr(MemoryLogWriter, "is_lazy", False)
    monkeypatch.setattr(MemoryLogWriter, "append", counted(MemoryLogWriter.append, chunks))
    _, _, in_pieces = run(toy_host, kernel, changes=WAITING)
    assert len(chunks) > 5
    assert sum(chunks) == engine.session.n_ops
    assert in_pieces.digest == whole.digest


@pytest.mark.parametrize(("kernel", "most_small", "wait"), [(multiply, 0, True), (loads, 0, False), (loads, 64, True)])
def test_records_wait_for_a_look_unless_many_commands_have_few(toy_host, monkeypatch, kernel, most_small, wait):
    _, _, whole = run(toy_host, kernel)
    monkeypatch.setattr("kb_engine.timing.clock.HOUSEKEEPING_INTERVAL", 7)
    monkeypatch.setattr("kb_engine.observe.recorder._CHUNK_RECORDS", 5)
    monkeypatch.setattr("kb_engine.observe.recorder._CHUNK_RECORDS_A_PE", 5)
    monkeypatch.setattr("kb_engine.observe.recorder._MOST_SMALL_COMMANDS", most_small)
    engine, _, log = run(toy_host, kernel)
    recorder = engine.session.recorder
    assert (recorder.writer.summary.n_ops == 0) == wait
    assert len(recorder.rows.commands) < max(20, most_small)
    assert log.digest == whole.digest


def counted(append, chunks):
    def wrapped(self, ops, operands, tables=None):
        chunks.append(len(ops))
        append(self, ops, operands, tables)

    return wrapped


def test_op_ids_follow_pass_twos_order(toy_host):
    _, _, log = run(toy_host, mixed)
    order = sorted(log.records(), key=lambda record: (record.command_seq, record.tile_id, record.stage_index))
    assert [record.op_id for record in order] == list(range(log.n_ops))


def test_without_a_writer_there_is_no_log(toy_host):
    host = toy_host()
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    host.launch(lambda tl, a: tl.load(a), a)
    assert host.engine.close_log() is None
