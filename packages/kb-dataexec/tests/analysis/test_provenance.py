import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, REGIONS, TCM, GemmProblem, LogBuilder, move
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.analysis.provenance import describe, last_writer, origin, position_of
from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_messages import DType, OpKind, Role


def test_an_outputs_origin_is_its_last_write_and_the_gemm_that_computed_it():
    problem = GemmProblem(16, 16, 16, (8, 8, 8))
    log = problem.log()
    found = origin(log, HBM, problem.at_c + (9 * 16 + 3) * 2)  # row 9, column 3: the third output tile
    writes = [record for record in log.records() if record.name == "dma_write"]
    gemms = [record for record in log.records() if record.kind is OpKind.GEMM]
    assert found.writer == writes[2]
    assert found.maker == gemms[5]
    assert str(found) == (
        f"written by op {writes[2].op_id} (dma_write, pe0, kernel.py:3), computed by op {gemms[5].op_id} (gemm, pe0, "
        "kernel.py:3)"
    )


def test_what_was_only_moved_comes_from_the_initial_memory():
    problem = GemmProblem(8, 8, 8, (8, 8, 8))
    log = problem.log()
    assert str(origin(log, TCM, 0)) == (
        "written by op 0 (dma_read, pe0, kernel.py:3), moved there from the initial memory"
    )
    assert str(origin(log, HBM, problem.at_a)) == "no op of the log wrote it"


def test_a_cast_on_the_way_is_followed_element_by_element():
    builder = LogBuilder()
    fill = [move(Role.OUT, REG, 0, 1, 4, 16, DType.F32)]
    for col in range(2):
        half = [move(Role.OUT, REG, 8 * col, 1, 2, 8, DType.F32)]
        builder.add((0, 0, col), OpKind.MATH, "fill", half, '{"op":"copy","scalars":[1]}')
    cast = [move(Role.SRC, *fill[0][2:3], 0, 1, 4, 16, DType.F32), move(Role.DST, HBM, 64, 1, 4, 8, DType.F16)]
    builder.add((0, 0, 2), OpKind.MEMORY, "store", cast)
    log = builder.log()
    makers = [origin(log, HBM, 64 + 2 * col).maker for col in range(4)]
    assert [maker.op_id for maker in makers if maker is not None] == [0, 0, 1, 1]


def test_order_is_that_of_the_commands_not_of_the_rows():
    builder = LogBuilder()
    out = [move(Role.OUT, REG, 0, 1, 4, 4, DType.U8)]
    for command in (2, 0, 1):
        builder.add((command, 0, 0), OpKind.MATH, "fill", out, '{"op":"copy","scalars":[1]}')
    log = builder.log()
    last = last_writer(log, REG, 3)
    assert last is not None
    assert last.command_seq == 2
    before = last_writer(log, REG, 3, position_of(last))
    assert before is not None
    assert (before.command_seq, describe(before)) == (1, "op 2 (fill, pe0, kernel.py:3)")
    assert last_writer(log, REG, 4) is None


def test_bytes_that_were_released_name_who_wrote_and_who_released_them():
    problem = GemmProblem(8, 8, 8, (8, 8, 8))
    builder = LogBuilder()
    problem.add_to(builder)
    again = [move(Role.SRC, TCM, 0, 1, 4, 8, DType.F16), move(Role.DST, HBM, 1 << 20, 1, 4, 8, DType.F16)]
    builder.add((1, 0, 0), OpKind.MEMORY, "dma_write", again)
    with pytest.raises(StoreError) as caught:
        Executor(builder.log(), problem.memory()).run()
    assert str(caught.value) == (
        f"op 6 (dma_write, pe0, kernel.py:3): tcm + 0x0 (address {TCM << 38:#x}): got a read of 1 x 4 f16 whose bytes "
        "from 0x0 on were released, needs initialised bytes; last written by op 0 (dma_read, pe0, kernel.py:3), then "
        "released by op 2 (fetch, pe0, kernel.py:3)"
    )


def test_a_misaligned_read_names_who_wrote_there():
    problem = GemmProblem(8, 8, 8, (8, 8, 8))
    builder = LogBuilder()
    problem.add_to(builder)
    odd = [move(Role.SRC, HBM, problem.at_c + 1, 1, 1, 2, DType.F16), move(Role.DST, TCM, 0, 1, 1, 2, DType.F16)]
    builder.add((1, 0, 0), OpKind.MEMORY, "dma_read", odd)
    with pytest.raises(StoreError) as caught:
        Executor(builder.log(), problem.memory()).run()
    at = problem.at_c + 1
    assert str(caught.value) == (
        f"op 6 (dma_read, pe0, kernel.py:3): hbm + {at:#x} (address {HBM << 38 | at:#x}): got rows of 2 bytes, 2 "
        "apart, needs offset, rows and stride in multiples of f16's 2 bytes; last written by op 5 (dma_write, pe0, "
        "kernel.py:3)"
    )


writes = st.tuples(st.integers(0, 20), st.integers(1, 4), st.integers(1, 5), st.sampled_from([0, 1, 3]))


@settings(max_examples=examples(100))
@given(st.lists(writes, min_size=1, max_size=8))
def test_the_last_writer_of_every_byte_is_who_left_its_value_there(rectangles):
    builder = LogBuilder()
    for number, (offset, rows, cols, gap) in enumerate(rectangles):
        target = [move(Role.OUT, REG, offset, rows, cols, cols + gap, DType.U8)]
        builder.add((number, 0, 0), OpKind.MATH, "fill", target, f'{{"op":"copy","scalars":[{number}]}}')
    log = builder.log()
    memory = MemoryStore(REGIONS)
    memory.write(REG, 0, np.full((1, 128), 255, np.uint8))
    after = Executor(log, memory).run().read(REG, 0, 1, 128, 128, DType.U8)[0].tolist()
    found = [last_writer(log, REG, at) for at in range(128)]
    assert [255 if writer is None else writer.op_id for writer in found] == after


@pytest.mark.parametrize("params", ["{", '{"op":"\udcff"}', "[" * 100_000])
def test_an_op_of_damaged_params_counts_as_one_that_computed(params):
    builder = LogBuilder()
    builder.add((0, 0, 0), OpKind.MATH, "fill", [move(Role.OUT, REG, 0, 1, 4, 4, DType.U8)], params)
    maker = origin(builder.log(), REG, 0).maker
    assert maker is not None
    assert maker.op_id == 0
