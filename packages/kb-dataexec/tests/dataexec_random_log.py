"""Random logs of moves, products and math that no simulator would write, and what they leave behind."""

import numpy as np
from dataexec_gemm_log import HBM, REG, TCM, move
from hypothesis import strategies as st

from kb_dataexec.execute.executor import Executor
from kb_dataexec.execute.fused import run as fused
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops.math import FUNCTIONS
from kb_messages import DType, KbError, OpKind, Role

SIZE = 96
OWNERS = (HBM, TCM, REG)
places = st.tuples(st.sampled_from(OWNERS), st.sampled_from([0, 4, 8, 16, 16, 32, 32, 48]))
released = st.sampled_from([0, 0, 0, 1])
shapes = st.sampled_from([(1, 4, 4), (1, 8, 8), (2, 4, 4), (2, 4, 8), (4, 4, 8), (2, 2, 4)])
pairs = st.tuples(places, places, shapes, released, st.sampled_from([DType.I8, DType.I8, DType.I8, DType.I16]))
results = st.sampled_from([(REG, 0), (REG, 0), (REG, 32), (TCM, 16), (HBM, 48)])
gemms = st.tuples(places, places, results, released, released, st.booleans(), st.booleans())
elements = st.sampled_from([DType.I8, DType.I32, DType.I32])
inputs = st.tuples(st.one_of(places, results), elements, released)
ops = st.sampled_from(["copy", "neg", "add", "mul", "maximum", "fma"])
maths = st.fixed_dictionaries({"op": ops, "inputs": st.tuples(inputs, inputs, inputs), "out": inputs})
records = st.one_of(st.lists(pairs, min_size=1, max_size=2), gemms, maths)


def new_memory():
    memory = MemoryStore([(owner, SIZE, str(owner)) for owner in OWNERS])
    for number, owner in enumerate(OWNERS):
        memory.write(owner, 0, (np.arange(SIZE) * (7 + number) % 251).astype(np.uint8).tobytes())
    return memory


def add_move(builder, place, moves):
    operands = []
    for source, target, (rows, nbytes, stride), release, dtype in moves:
        cols = nbytes // dtype.nbytes
        operands.append(move(Role.SRC, *source, rows, cols, stride, dtype, release))
        operands.append(move(Role.DST, *target, rows, cols, cols, DType.I8))
    builder.add(place, OpKind.MEMORY, "move", operands)


def add_gemm(builder, place, gemm):
    a, b, out, release_a, release_b, accumulate, transposed = gemm
    operands = [
        move(Role.A, *a, 2, 4, 4, DType.I8, release_a),
        move(Role.B, *b, 2, 4, 4, DType.I8, release_b)
        if transposed
        else move(Role.B, *b, 4, 2, 2, DType.I8, release_b),
        *([move(Role.ACC, *out, 2, 2, 8, DType.I32)] if accumulate else []),
        move(Role.OUT, *out, 2, 2, 8, DType.I32),
    ]
    flags = ['"accumulate":true'] * accumulate + ['"transpose_b":true'] * transposed
    builder.add(place, OpKind.GEMM, "gemm", operands, "{" + ",".join(flags) + "}")


def add_math(builder, place, math):
    """2 x 2 elements; i32 ones lie as the accumulators of `add_gemm`."""
    used = math["inputs"][: FUNCTIONS[math["op"]].arity]
    operands = [move(Role.IN, *at, 2, 2, 2 * dtype.nbytes, dtype, release) for at, dtype, release in used]
    at, dtype, _ = math["out"]
    out = move(Role.OUT, *at, 2, 2, 2 * dtype.nbytes, dtype)
    builder.add(place, OpKind.MATH, "math", [*operands, out], f'{{"op":"{math["op"]}"}}')


def add_record(builder, place, record):
    add = {list: add_move, tuple: add_gemm, dict: add_math}[type(record)]
    add(builder, place, record)


def outcome(log, mode, fuse_from=2):
    """Every byte of every memory, -1 where it is not initialised; or the text of the error."""
    try:
        store = Executor(log, new_memory(), mode, fuse_from=fuse_from).run()
    except KbError as error:
        return f"{type(error).__name__}: {error}"
    return [bytes_of(store, owner) for owner in OWNERS]


def bytes_of(store, owner):
    data, is_valid = store.held(owner, 0, 1, SIZE, SIZE)
    return np.where(is_valid, data.astype(np.int16), -1)[0].tolist()


def resolves(log, memory=None) -> bool:
    """Whether the whole log runs as one fused window."""
    schedule = Schedule(log)
    return fused._run_window(schedule, memory or new_memory(), 0, len(schedule.ops))


def outcome_of_one_window(builder):
    """Every byte of every memory after a log that runs as one fused window, as tile mode leaves them."""
    log = builder.log()
    assert resolves(log)
    after = outcome(log, "tile")
    assert isinstance(after, list)
    assert outcome(log, "fused") == after
    return after


def one_move(builder, source, target, release=0, shape=(2, 4, 4)):
    add_move(builder, (0, 0, len(builder.ops)), [(source, target, shape, release, DType.I8)])
