"""MATH records that mean nothing, and what is said of each."""

import numpy as np
import pytest
from dataexec_gemm_log import REG, REGIONS, TCM, LogBuilder
from dataexec_math_records import WHERE, apply, execute, expect
from dataexec_math_values import STEP, attributes, values, whole

from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops.math import FUNCTIONS
from kb_messages import DType, LogError, OpKind, Role


@pytest.mark.parametrize(
    ("op", "axis", "group", "shape", "message"),
    [
        ("spread", None, None, (12, 5), "spread with group None, needs rows of a group"),
        ("exp", None, (2, 1), (12, 5), "exp with group (2, 1), needs none"),
        ("sum", 1, (2, 1), (12, 1), "sum with group (2, 1), needs none"),
        ("sum", 0, (5, 1), (2, 5), "sum of 12 rows in groups of 5, 1 apart, needs a multiple of 5"),
        ("cumsum", 0, (0, 1), (12, 5), "cumsum of 12 rows in groups of 0, 1 apart, needs a multiple of 0"),
        ("spread", None, (2, 5), (24, 5), "spread of 12 rows in groups of 2, 5 apart, needs a multiple of 5"),
        ("sum", 0, (3, 1), (3, 5), "sum of 12 x 5 f32 into OUT 3 x 5 f32, needs an OUT of 4 x 5"),
    ],
)
def test_groups_that_mean_nothing_are_refused(op, axis, group, shape, message):
    with expect(LogError, f"{WHERE}: got {message}"):
        apply(op, values(DType.F32, (12, 5)), axis=axis, group=group, shape=shape)


def test_unwritten_inputs_name_the_op():
    operands = [whole(Role.IN, TCM, 0, (1, 2), DType.F32), whole(Role.OUT, REG, 0, (1, 2), DType.F32)]
    text = "got a read of 1 x 2 f32 whose bytes from 0x0 on were never written, needs initialised bytes"
    text += "; no op of the log writes it"
    with expect(StoreError, f"{WHERE}: tcm + 0x0 (address {TCM << 38:#x}): {text}"):
        execute(operands, attributes("neg"))


def in_out(shapes, out, dtype=DType.F32):
    sources = [whole(Role.IN, TCM, at * STEP, shape, dtype) for at, shape in enumerate(shapes)]
    return [*sources, whole(Role.OUT, REG, 0, out, DType.F32)]


ONE = in_out([(2, 3)], (2, 3))
TWO = in_out([(2, 3)] * 2, (2, 3))
JSON = (
    'needs JSON such as {"op": "add"} with no fields but op, axis, scalars, scalar_at, reverse, '
    "group, lengths, strides, first"
)


@pytest.mark.parametrize(
    ("operands", "params", "text"),
    [
        (ONE, "", f"got no params, {JSON}"),
        (
            ONE,
            '{"op":"abs","x":1}',
            f"""got params '{{"op":"abs","x":1}}' (Object contains unknown field `x`), {JSON}""",
        ),
        (
            ONE,
            '{"op":"add","scalars":["2.0"]}',
            f"""got params '{{"op":"add","scalars":["2.0"]}}' (Invalid enum value '2.0' - at `$.scalars[0]`), {JSON}""",
        ),
        (ONE, attributes("gamma"), f"got op 'gamma', needs one of {', '.join(FUNCTIONS)}"),
        (ONE[:1], attributes("abs"), "got operands IN, needs IN operands and one OUT"),
        ([], attributes("abs"), "got operands none, needs IN operands and one OUT"),
        ([*ONE, ONE[1]], attributes("abs"), "got operands IN, OUT, OUT, needs IN operands and one OUT"),
        (ONE, attributes("add"), "got add of 1 IN operands and 0 scalars, needs 2 arguments"),
        (ONE, attributes("abs", scalars=(1.0,)), "got abs of 1 IN operands and 1 scalars, needs 1 argument"),
        (
            ONE,
            attributes("sub", scalars=(1.0,), scalar_at=(2,)),
            "got sub with scalar_at [2] of 1 scalars, needs a place among the arguments for each scalar, ascending",
        ),
        (
            ONE,
            attributes("fma", scalars=(1.0, 2.0), scalar_at=(1, 0)),
            "got fma with scalar_at [1, 0] of 2 scalars, needs a place among the arguments for each scalar, ascending",
        ),
        (TWO, attributes("mod"), "got mod of 2 x 3 f32, 2 x 3 f32, needs integers"),
        (ONE, attributes("sum"), "got sum over no axis, needs axis 0 or 1"),
        (ONE, attributes("max", 2), "got max over axis 2, needs axis 0 or 1"),
        (TWO, attributes("add", 1), "got add over axis 1, needs no axis, as it is no reduction and no scan"),
        (in_out([(2, 3)], (2, 3), DType.I8), attributes("exp"), "got exp of 2 x 3 i8, needs floats"),
        (
            in_out([(2, 3), (3, 1)], (2, 3)),
            attributes("add"),
            "got add of 2 x 3 f32, 3 x 1 f32, needs shapes that broadcast",
        ),
        (
            in_out([(1, 3), (2, 1)], (2, 4)),
            attributes("add"),
            "got add of 1 x 3 f32, 2 x 1 f32 into OUT 2 x 4 f32, needs an OUT of 2 x 3",
        ),
        (
            in_out([(1, 1)], (2, 3)),
            attributes("copy"),
            "got copy of 1 x 1 f32 into OUT 2 x 3 f32, needs an OUT of 1 x 1",
        ),
        (
            in_out([(2, 3)], (1, 3)),
            attributes("sum", 1),
            "got sum of 2 x 3 f32 into OUT 1 x 3 f32, needs an OUT of 2 x 1",
        ),
        (
            in_out([(2, 3)], (2, 3), DType.I8),
            attributes("add", scalars=(0.5,)),
            "got scalars 0.5 in add of integers, needs whole numbers of 64 bits",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_wrong_record_names_its_place(operands, params, text, mode):
    builder = LogBuilder()
    builder.add((0, 0, 0), OpKind.MATH, "an_op", operands, params)
    builder.add((0, 0, 1), OpKind.MATH, "another", ONE, attributes("abs"))
    store = MemoryStore(REGIONS)
    store.write_tensor(TCM, 0, np.ones(3 * STEP, np.uint8))
    with expect(LogError, f"{WHERE}: {text}"):
        Executor(builder.log(), store, mode, fuse_from=2).run()


@pytest.mark.parametrize("params", ['{"op":"\udcff"}', "[" * 100_000])
@pytest.mark.parametrize("kind", [OpKind.MATH, OpKind.GEMM])
@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_params_that_no_decoder_takes_are_one_sentence(kind, params, mode):
    builder = LogBuilder()
    builder.add((0, 0, 0), kind, "an_op", ONE, params)
    builder.add((0, 0, 1), OpKind.MATH, "another", ONE, attributes("abs"))
    store = MemoryStore(REGIONS)
    store.write_tensor(TCM, 0, np.ones(3 * STEP, np.uint8))
    with pytest.raises(LogError, match=r": got params .*, needs JSON") as caught:
        Executor(builder.log(), store, mode, fuse_from=2).run()
    assert str(caught.value).startswith(WHERE)
