import re

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, REGIONS, TCM, LogBuilder, move

from kb_dataexec.arrays.dtypes import cast, numpy_dtype
from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops.gemm import product
from kb_messages import DType, LogError, OpKind, Role

WHERE = "op 0 (an_op, pe0, kernel.py:3)"


def run(kind, operands, params="", immediates=b"", memory=None):
    builder = LogBuilder()
    builder.add((0, 0, 0), kind, "an_op", operands, params)
    log = builder.log()
    log.immediates = immediates
    store = MemoryStore(REGIONS)
    for (owner, offset), array in (memory or {}).items():
        store.write_tensor(owner, offset, np.asarray(array))
    return Executor(log, store, "tile").run()


def expect(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def test_a_move_copies_a_rectangle():
    operands = [move(Role.SRC, HBM, 2, 2, 2, 4, DType.U8), move(Role.DST, TCM, 0, 2, 2, 3, DType.U8)]
    out = run(OpKind.MEMORY, operands, memory={(HBM, 0): np.arange(8, dtype=np.uint8)})
    assert out.read(TCM, 0, 2, 2, 3, DType.U8).tolist() == [[2, 3], [6, 7]]


def test_a_move_between_types_casts():
    operands = [move(Role.SRC, REG, 0, 1, 2, 8, DType.F32), move(Role.DST, TCM, 0, 1, 2, 4, DType.F16)]
    out = run(OpKind.MEMORY, operands, memory={(REG, 0): np.array([1e6, 2049.0], np.float32)})
    assert out.read(TCM, 0, 1, 4, 4, DType.F16).tolist() == [[np.inf, 2048.0]]


def test_a_fetch_reads_all_its_sources_before_it_writes():
    swap = [move(role, HBM, at, 1, 4, 4, DType.U8) for role, at in ((0, 0), (1, 4), (0, 4), (1, 0))]
    out = run(OpKind.MEMORY, swap, memory={(HBM, 0): np.arange(8, dtype=np.uint8)})
    assert out.read(HBM, 0, 1, 8, 8, DType.U8).tolist() == [[4, 5, 6, 7, 0, 1, 2, 3]]


def test_an_immediate_is_read_from_the_log():
    source = (Role.SRC, 5, 0, 8, 1, 4, 4, DType.F32.info.code, 0)
    target = move(Role.DST, TCM, 0, 1, 1, 4, DType.F32)
    out = run(OpKind.MEMORY, [source, target], immediates=bytes(8) + np.float32(1.5).tobytes())
    assert out.read(TCM, 0, 1, 4, 4, DType.F32).tolist() == [[1.5]]


def test_a_released_source_holds_nothing_afterwards():
    operands = [move(Role.SRC, TCM, 0, 1, 4, 4, DType.U8, 1), move(Role.DST, HBM, 0, 1, 4, 4, DType.U8)]
    out = run(OpKind.MEMORY, operands, memory={(TCM, 0): np.arange(4, dtype=np.uint8)})
    with pytest.raises(StoreError, match="were released"):
        out.read(TCM, 0, 1, 4, 4, DType.U8)


@pytest.mark.parametrize(
    ("roles", "found"), [([], "none"), ([0], "SRC"), ([1, 0], "DST, SRC"), ([0, 1, 0], "SRC, DST, SRC")]
)
def test_a_move_needs_pairs(roles, found):
    with expect(LogError, f"{WHERE}: got operands {found}, needs SRC, DST pairs"):
        run(OpKind.MEMORY, [move(Role(role), HBM, 0, 1, 4, 4, DType.U8) for role in roles])


def test_a_move_keeps_its_shape():
    operands = [move(Role.SRC, HBM, 0, 2, 2, 4, DType.F16), move(Role.DST, TCM, 0, 1, 4, 8, DType.F16)]
    with expect(LogError, f"{WHERE}: got a move of 2 x 2 f16 to 1 x 4 f16, needs the same rows and columns"):
        run(OpKind.MEMORY, operands)


def test_unwritten_sources_name_the_op():
    operands = [move(Role.SRC, TCM, 64, 1, 4, 4, DType.U8), move(Role.DST, HBM, 0, 1, 4, 4, DType.U8)]
    with expect(
        StoreError,
        f"{WHERE}: tcm + 0x40 (address {TCM << 38 | 64:#x}): got a read of 1 x 4 u8 whose bytes from 0x40 on were "
        "never written, needs initialised bytes; no op of the log writes it",
    ):
        run(OpKind.MEMORY, operands)


def test_destinations_outside_a_memory_name_the_op():
    operands = [move(Role.SRC, HBM, 0, 1, 4, 4, DType.U8), move(Role.DST, TCM, (1 << 20) - 2, 1, 4, 4, DType.U8)]
    with expect(StoreError, f"{WHERE}: tcm + 0xffffe (address {TCM << 38 | 0xFFFFE:#x}): {BEYOND}"):
        run(OpKind.MEMORY, operands, memory={(HBM, 0): np.zeros(4, np.uint8)})


BEYOND = "got bytes 0xffffe to 0x100002, needs a range within its 0x100000 bytes"


def gemm_operands(m, n, k, dtype=DType.F16, acc=False, turn_a=False, turn_b=False, out=None):
    a, b = ((k, m) if turn_a else (m, k)), ((n, k) if turn_b else (k, n))
    out = out or dtype.accumulator
    size = dtype.nbytes
    rows = [
        move(Role.A, HBM, 0, *a, a[1] * size, dtype),
        move(Role.B, HBM, 4096, *b, b[1] * size, dtype),
        move(Role.OUT, REG, 0, m, n, n * out.nbytes, out),
    ]
    return [*rows, move(Role.ACC, REG, 0, m, n, n * out.nbytes, out)] if acc else rows


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F8E4M3, DType.F8E5M2, DType.F32])
@pytest.mark.parametrize(("turn_a", "turn_b"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_gemm_multiplies_and_accumulates_in_f32(dtype, turn_a, turn_b):
    rng = np.random.default_rng(1)
    a, b = (cast(rng.integers(-4, 5, shape).astype(np.float64), dtype) for shape in ((3, 5), (5, 4)))
    acc = rng.integers(-9, 9, (3, 4)).astype(np.float32)
    memory = {(HBM, 0): a.T if turn_a else a, (HBM, 4096): b.T if turn_b else b, (REG, 0): acc}
    flags = f'{{"accumulate":true,"transpose_a":{str(turn_a).lower()},"transpose_b":{str(turn_b).lower()}}}'
    out = run(OpKind.GEMM, gemm_operands(3, 4, 5, dtype, True, turn_a, turn_b), flags, memory=memory)
    expected = a.astype(np.float64) @ b.astype(np.float64) + acc
    assert out.read(REG, 0, 3, 16, 16, DType.F32).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "i32", "i64"])
def test_integer_products_are_exact_modulo_2_to_the_32(name):
    dtype = numpy_dtype(DType(name))
    info, rng = np.iinfo(dtype), np.random.default_rng(2)
    a, b = (rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True) for shape in ((4, 60), (60, 3)))
    exact = [[sum(int(x) * int(y) for x, y in zip(row, col, strict=True)) for col in b.T] for row in a]
    expected = [[(value + 2**31) % 2**32 - 2**31 for value in row] for row in exact]
    got = product(a, b)
    assert got.dtype == np.int32
    assert got.tolist() == expected


def test_a_gemm_without_an_operand_is_an_error():
    with expect(LogError, f"{WHERE}: got operands A, B, needs A, B, OUT"):
        run(OpKind.GEMM, gemm_operands(2, 2, 2)[:2])


def test_an_accumulating_gemm_needs_its_accumulator():
    with expect(LogError, f"{WHERE}: got operands A, B, OUT, needs A, B, ACC, OUT"):
        run(OpKind.GEMM, gemm_operands(2, 2, 2), '{"accumulate":true}')


def test_a_gemm_with_unknown_attributes_is_an_error():
    needs = "needs JSON with no fields but accumulate, transpose_a, transpose_b, each true or false"
    with expect(LogError, f"{WHERE}: got params '{{\"alpha\":2}}' (Object contains unknown field `alpha`), {needs}"):
        run(OpKind.GEMM, gemm_operands(2, 2, 2), '{"alpha":2}')


def test_a_gemm_whose_shapes_do_not_fit_is_an_error():
    a, _, out = gemm_operands(2, 3, 4)
    _, b, _ = gemm_operands(2, 3, 5)
    with expect(
        LogError, f"{WHERE}: got A 2 x 4 f16, B 5 x 3 f16, OUT 2 x 3 f32, needs rows x k, k x cols and rows x cols"
    ):
        run(OpKind.GEMM, [a, b, out])


def test_a_gemm_gives_f32_or_i32():
    with expect(
        LogError,
        f"{WHERE}: got A 2 x 2 f16, B 2 x 2 f16, OUT 2 x 2 f16, needs floats into f32, or integers into i32",
    ):
        run(OpKind.GEMM, gemm_operands(2, 2, 2, out=DType.F16))


def test_the_accumulator_is_read_where_it_is_written():
    *rows, acc = gemm_operands(2, 2, 2, acc=True)
    moved = (*acc[:3], 64, *acc[4:])
    with expect(LogError, f"{WHERE}: got ACC at 0x40, OUT at 0x0, needs the same bytes and type for both"):
        run(OpKind.GEMM, [*rows, moved], '{"accumulate":true}')
