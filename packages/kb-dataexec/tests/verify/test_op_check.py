import re

import numpy as np
import pytest
from dataexec_gemm_log import REG, REGIONS, TCM, GemmProblem, LogBuilder
from dataexec_math_log import EpilogueProblem, SoftmaxProblem, params
from dataexec_math_values import attributes, inputs_of, values, whole

from kb_dataexec.arrays.functions import FUNCTIONS
from kb_dataexec.backends.numpy_backend import NumpyBackend
from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.verify.compare import compare
from kb_dataexec.verify.op_check import debug
from kb_messages import MATH_FUNCTIONS, DType, OpKind, Role

PROBLEMS = [
    GemmProblem(37, 29, 230, (16, 8, 50)),
    GemmProblem(37, 29, 23, (16, 8, 5), DType.I8),
    GemmProblem(21, 18, 13, (8, 8, 4), DType.F8E4M3, transpose_b=True),
    EpilogueProblem(37, 29, 23, (16, 8, 5), DType.BF16),
    SoftmaxProblem(21, 33, 4),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda each: f"{type(each).__name__}-{each.dtype}")
def test_a_right_log_runs_to_its_end_and_leaves_what_the_executor_leaves(problem):
    log = problem.log()
    found = debug(log, problem.memory())
    assert (found.wrong, found.n_ops) == (None, log.n_ops)
    expected = Executor(log, problem.memory(), "tile").run()
    assert problem.result(found.memory).tobytes() == problem.result(expected).tobytes()


class Faulty(NumpyBackend):
    """Numpy, but wrong by a little in every product or function from call number *since* on."""

    def __init__(self, since, error):
        self.left, self.error = since, error

    def spoil(self, result):
        self.left -= 1
        return result if self.left >= 0 else result + np.asarray(self.error, result.dtype)

    def matmul(self, a, b):
        return self.spoil(super().matmul(a, b))

    def apply(self, op, arguments, axis):
        return self.spoil(super().apply(op, arguments, axis))


def test_it_stops_at_the_first_op_that_is_wrong_and_shows_where():
    problem = GemmProblem(8, 8, 16, (8, 8, 4), DType.F32)
    log = problem.log()
    found = debug(log, problem.memory(), Faulty(2, [0, 0, 0, 0.01, 0, 0, 0, 0]))
    third = [record for record in log.records() if record.kind is OpKind.GEMM][2]
    assert found.wrong is not None
    assert found.wrong.op_id == third.op_id
    assert found.n_ops == third.op_id + 1
    text = str(found.wrong)
    start = f"op {third.op_id} (gemm, pe0, kernel.py:3): OUT 8 x 8 f32: 8 of 64 elements wrong (12.5 %), in [0:8, 3:4]"
    assert text.startswith(start), text
    assert found.wrong.comparison.worst[1] == 3
    assert found.wrong.comparison.got - found.wrong.comparison.expected == pytest.approx(0.01, abs=1e-5)


@pytest.mark.parametrize("op", ["sum", "prod", "max", "cumsum", "cumprod", "spread"])
@pytest.mark.parametrize("group", [(3, 2), (4, 1), (1, 12)])
def test_a_function_of_groups_of_rows_is_right_and_one_of_others_is_found(op, group):
    x = values(DType.F32, (12, 5), low=0.5)
    n = group[0]
    rows = {"spread": 12 * n, "cumsum": 12, "cumprod": 12}.get(op, 12 // n)
    builder, memory = LogBuilder(), MemoryStore(REGIONS)
    operands = [*inputs_of([x]), whole(Role.OUT, REG, 0, (rows, 5), DType.F32)]
    builder.add((0, 0, 0), OpKind.MATH, "an_op", operands, attributes(op, None if op == "spread" else 0, group=group))
    memory.write_tensor(TCM, 0, x)
    log = builder.log()
    assert debug(log, memory).wrong is None

    class Wrong(NumpyBackend):
        def apply(self, op, arguments, axis):
            return super().apply(op, arguments, axis) * np.float32(1 + 2**-15)

    if op != "spread":
        assert debug(log, memory, Wrong()).wrong is not None


@pytest.mark.parametrize(
    "op",
    [op for op, each in FUNCTIONS.items() if not (each.int_only or each.generates or each.spreads or each.is_layout)],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_every_function_of_floats_is_right_and_one_that_is_not_is_found(op, dtype):
    function = FUNCTIONS[op]
    low = 0.5 if op in ("log", "log2", "log1p", "sqrt", "rsqrt", "pow") else -4.0
    arrays = [values(dtype, low=low, seed=seed) for seed in range(function.arity)]
    out = DType.BOOL if op in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "isnan", "isinf") else DType.F32
    out = DType.I32 if MATH_FUNCTIONS[op].finds else out
    shape = (5, 1) if function.reduces else (5, 7)
    builder, memory = LogBuilder(), MemoryStore(REGIONS)
    operands = [*inputs_of(arrays), whole(Role.OUT, REG, 0, shape, out)]
    builder.add((0, 0, 0), OpKind.MATH, "an_op", operands, params(op, 1 if function.has_axis else None))
    for at, array in enumerate(arrays):
        memory.write_tensor(TCM, at * 4096, array)
    log = builder.log()
    assert debug(log, memory).wrong is None

    class Wrong(NumpyBackend):
        def apply(self, op, arguments, axis):
            result = super().apply(op, arguments, axis)
            return (
                ~result
                if result.dtype == bool
                else result + 1
                if result.dtype == int
                else result * np.float32(1 + 2**-15) + np.float32(2**-15)
            )

    wrong = debug(log, memory, Wrong()).wrong
    assert wrong is not None
    assert wrong.where == "op 0 (an_op, pe0, kernel.py:3)"


@pytest.mark.parametrize(
    ("op", "scalars", "dtype"),
    [("index", (3, 10, 2), DType.I32), ("fill", (2.5,), DType.F16), ("fill", (7,), DType.I32)],
)
def test_a_function_without_inputs_is_right_and_one_that_is_not_is_found(op, scalars, dtype):
    builder = LogBuilder()
    out = whole(Role.OUT, REG, 0, (5, 7), dtype)
    builder.add((0, 0, 0), OpKind.MATH, "an_op", [out], params(op, scalars=scalars))
    log, memory = builder.log(), MemoryStore(REGIONS)
    found = debug(log, memory)
    assert found.wrong is None
    rows, cols = np.mgrid[:5, :7]
    expected = 3 + 10 * rows + 2 * cols if op == "index" else np.full((5, 7), scalars[0])
    assert np.array_equal(found.memory.read(REG, 0, 5, 7 * dtype.nbytes, 7 * dtype.nbytes, dtype), expected)

    class Wrong(NumpyBackend):
        def apply(self, op, arguments, axis):
            return super().apply(op, arguments, axis) + 1

    assert debug(log, memory, Wrong()).wrong is not None


def test_a_wrong_cast_is_found(monkeypatch):
    from kb_dataexec.ops import memory

    problem = GemmProblem(8, 8, 8, (8, 8, 8))
    truncated = lambda value, dtype: (value * (1 - 2**-10)).astype(np.float16)  # noqa: E731
    cast = memory.cast
    monkeypatch.setattr(
        memory, "cast", lambda v, d: truncated(v, d) if d is DType.F16 and v.dtype != "f2" else cast(v, d)
    )
    wrong = debug(problem.log(), problem.memory()).wrong
    assert wrong is not None
    assert wrong.where == "op 4 (store, pe0, kernel.py:3)"


def test_bytes_that_nobody_wrote_are_the_executors_error():
    problem = GemmProblem(8, 8, 8, (8, 8, 8))
    messages = []
    for run in (lambda: debug(problem.log(), MemoryStore(REGIONS)), Executor(problem.log(), MemoryStore(REGIONS)).run):
        with pytest.raises(StoreError) as caught:
            run()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert re.match(r"op 0 \(dma_read, pe0, kernel.py:3\): hbm \+ 0x1000 .*; no op of the log writes it$", messages[0])


def test_a_log_that_asks_for_the_wrong_thing_is_not_found_by_it():
    problem = GemmProblem(8, 8, 8, (8, 8, 8))
    log = problem.log()
    log.operands["offset"][log.operands["offset"] == problem.at_b] = problem.at_a
    found = debug(log, problem.memory())
    assert found.wrong is None
    assert not compare("c", problem.result(found.memory), *problem.reference()).ok
