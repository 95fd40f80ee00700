"""Random vector programs, with values of any order and use, against numpy in float64 with bounds of the error."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host

SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)
VALUES = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "sub", "mul", "maximum", "where", "abs", "sigmoid", "sum0", "sum1", "max0", "max1", "cumsum", "f16",
             "store", "store again", "forget"]
        ),
        st.integers(0, 50),
        st.integers(0, 50),
    ),
    min_size=3,
    max_size=25,
)  # fmt: skip
ROUND = {"f32": 2.0**-23, "f16": 2.0**-10}


class Reference:
    """A float64 value and a bound of the error that f32 and f16 roundings make of it."""

    def __init__(self, value, error):
        self.value, self.error = value, error

    def rounded(self, unit=2.0**-23):
        return Reference(self.value, self.error + unit * (np.abs(self.value) + self.error) + 2.0**-24)


def apply(name, tl, x, y):
    """The op *name* of two pairs (value of the kernel, its Reference)."""
    (a, ra), (b, rb) = x, y
    if name in ("add", "sub"):
        sign = 1 if name == "add" else -1
        return (a + b if sign == 1 else a - b), Reference(ra.value + sign * rb.value, ra.error + rb.error).rounded()
    if name == "mul":
        error = np.abs(ra.value) * rb.error + np.abs(rb.value) * ra.error + ra.error * rb.error
        return a * b, Reference(ra.value * rb.value, error).rounded()
    if name == "maximum":
        return tl.maximum(a, b), Reference(np.maximum(ra.value, rb.value), np.maximum(ra.error, rb.error))
    if name == "where":
        chosen = Reference(np.where(True, ra.value, rb.value), np.where(True, ra.error, 0 * rb.error))
        return tl.where(tl.isnan(b), b, a), chosen
    if name == "abs":
        return tl.abs(a), Reference(np.abs(ra.value), ra.error)
    if name == "sigmoid":
        return tl.sigmoid(a), Reference(1 / (1 + np.exp(-ra.value)), ra.error / 4 + 1e-6)
    if name == "cumsum":
        total = np.cumsum(ra.value, axis=1)
        error = np.cumsum(ra.error + ra.value.shape[1] * 2.0**-23 * np.abs(ra.value), axis=1)
        return tl.cumsum(a, axis=1), Reference(total, error).rounded()
    axis = int(name[-1])
    if name.startswith("max"):
        return tl.max(a, axis=axis), Reference(
            ra.value.max(axis=axis, keepdims=True), ra.error.max(axis=axis, keepdims=True)
        )
    error = (ra.error + ra.value.shape[axis] * 2.0**-23 * np.abs(ra.value)).sum(axis=axis, keepdims=True)
    return tl.sum(a, axis=axis), Reference(ra.value.sum(axis=axis, keepdims=True), error).rounded()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES, st.booleans(), st.sampled_from(["tile", "fused"]), st.sampled_from([(), SCOREBOARD]))
def test_random_programs_are_what_numpy_computes_in_float64(chip, steps, small, mode, issue):
    """Values with broadcasts, reductions and scans, in any order of stores, with and without names."""
    rows, cols = 6, 40
    rng = np.random.default_rng(len(steps))
    inputs = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((rows, cols), (1, cols), (rows, 1))]
    expected, most = [], 24

    def kernel(tl, x, row, column, out):
        made = [
            (tl.load(each), Reference(array.astype(np.float64), np.zeros(array.shape)))
            for each, array in zip((x, row, column), inputs, strict=True)
        ]
        expected.clear()
        for name, first, second in steps:
            one, two = made[first % len(made)], made[second % len(made)]
            if name == "forget":
                if len(made) > 3:
                    del made[-1]
            elif name.startswith("store"):
                value, reference = one
                if len(expected) < most and np.abs(reference.value).max() < 1e4:
                    wide = value + tl.zeros((rows, cols), "f32")
                    tl.store(out[len(expected) * rows : (len(expected) + 1) * rows], wide)
                    expected.append(Reference(reference.value + np.zeros((rows, cols)), reference.error).rounded())
            elif name == "f16":
                if np.abs(one[1].value).max() < 1e3:
                    made.append((one[0].to("f16").to("f32"), one[1].rounded(2.0**-10)))
            else:
                value, reference = apply(name, tl, one, two)
                if np.abs(reference.value).max() < 1e4:
                    made.append((value, reference))

    changes = (*issue, *((("queue_depth: 4", "queue_depth: 1"), ("size: 64 KiB", "size: 1600 B")) if small else ()))
    engine = Engine(chip(*changes), MemoryLogWriter())
    host = Host(engine)
    tensors = [host.tensor(f"t{at}", each, "f32") for at, each in enumerate(inputs)]
    out = host.empty("out", (most * rows, cols), "f32")
    host.launch(kernel, *tensors, out, pes=(0,))
    if not expected:
        return
    memory = Executor(engine.close_log(), engine.initial_memory, mode).run()
    for at, reference in enumerate(expected):
        block = read_tensor_rows(memory, out, at * rows, rows)
        assert (np.abs(block - reference.value) <= 4 * reference.error + 1e-6).all()


def read_tensor_rows(memory, tensor, first, count):
    ((_, block),) = tensor.blocks()
    part = block.part(first, 0, count, block.cols)
    return np.array(memory.read(*part.rectangle.in_memory, part.dtype), np.float64)
