"""Chains of elementwise ops give the bytes of numpy in f32, in tile mode and in fused mode."""

import numpy as np
from dataexec_gemm_log import REG, REGIONS, LogBuilder, move
from dataexec_math_values import DTYPE_OF, STEP, attributes, values
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.arrays.dtypes import cast
from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops.math import FUNCTIONS
from kb_messages import DType, OpKind, Role

ROWS, COLS, SLOTS = 3, 5, 4
DIRECT = {
    "copy": lambda x: x,
    "neg": lambda x: -x,
    "abs": np.abs,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": np.maximum,
    "le": lambda x, y: x <= y,
    "where": lambda c, x, y: np.where(c != 0, x, y),
    "fma": lambda x, y, z: x * y + z,
}
slots = st.integers(0, SLOTS - 1)
steps = st.tuples(
    st.sampled_from(sorted(DIRECT)),
    st.tuples(slots, slots, slots),
    slots,
    st.sampled_from([DType.F32, DType.F16, DType.BF16, DType.I32]),
    st.booleans(),
)


@settings(max_examples=examples(150))
@given(st.lists(steps, min_size=1, max_size=12), st.integers(0, 99))
def test_chains_are_what_numpy_computes_in_f32(chain, seed):
    """Four slots of 3 x 5; each holds its last value in that value's own type, with rows 32 bytes apart."""
    state = [values(DType.F32, (ROWS, COLS), seed=seed + at) for at in range(SLOTS)]
    store = MemoryStore(REGIONS)
    for at, array in enumerate(state):
        store.write(REG, at * STEP, array, 32)
    builder = LogBuilder()

    def rectangle(role, at, dtype):
        return move(role, REG, at * STEP, ROWS, COLS, 32, dtype)

    for op, sources, target, out, release in chain:
        arity = FUNCTIONS[op].arity - (1 if release and FUNCTIONS[op].arity == 2 else 0)
        scalars = (0.3,) * (FUNCTIONS[op].arity - arity)
        taken = [state[at] for at in sources[:arity]]
        told = taken[1:] if op == "where" else taken
        if op in ("exp", "sqrt", "tanh", "div") or any(array.dtype.kind not in "iu" for array in told):
            if op in ("exp", "sqrt", "tanh", "div") and any(array.dtype.kind in "iu" for array in taken):
                continue
            arguments = [array if op == "copy" else cast(array, DType.F32) for array in taken]
            arguments += [np.float32(scalar) for scalar in scalars]
        elif scalars:
            continue
        else:
            arguments = [cast(array, DType.I64) for array in taken]
        if op == "where":
            arguments[0] = taken[0]
        with np.errstate(all="ignore"):
            state[target] = cast(DIRECT[op](*arguments), out)
        operands = [rectangle(Role.IN, at, DTYPE_OF[array.dtype]) for at, array in zip(sources, taken, strict=False)]
        place = (len(builder.ops) // 5, 0, len(builder.ops))
        builder.add(
            place, OpKind.MATH, op, [*operands, rectangle(Role.OUT, target, out)], attributes(op, None, scalars)
        )
    if not builder.ops:
        return
    log = builder.log()
    for mode in ("tile", "fused"):
        after = Executor(log, store, mode, fuse_from=2).run()
        for at, array in enumerate(state):
            dtype = DTYPE_OF[array.dtype]
            assert after.read(REG, at * STEP, ROWS, COLS * dtype.nbytes, 32, dtype).tobytes() == array.tobytes()
