"""The coarsest rounding behind an output, of ops that compute, cast, choose and move."""

import pytest
from dataexec_gemm_log import HBM, LogBuilder, move

from kb_dataexec.verify import Rounding, coarsest_roundings
from kb_messages import DType, OpKind, Rectangle, Role

F32, F16, BF16, F8, I8 = DType.F32, DType.F16, DType.BF16, DType.F8E4M3, DType.I8
OUT = 4096


class Chain(LogBuilder):
    """Ops that each read what the op before wrote: 4 elements, which step n writes at 64 n."""

    def step(self, op, source, target, line=5, to=None, inputs=1):
        number = len(self.ops)
        reads = [move(Role.IN, HBM, 64 * number, 1, 4 * source.nbytes, 4 * source.nbytes, source)] * inputs
        at = 64 * (number + 1) if to is None else to
        write = move(Role.OUT, HBM, at, 1, 4 * target.nbytes, 4 * target.nbytes, target)
        self.add((number, 0, 0), OpKind.MATH, "math", [*reads, write], params=op, line=f"k.py:{line}")
        return self

    def found(self, dtype=F32, *others):
        outputs = [[Rectangle.of_memory(HBM, OUT, 1, 4 * dtype.nbytes, 4 * dtype.nbytes)], *others]
        return coarsest_roundings(self.log(), outputs, [dtype] * len(outputs))


COPY, EXP, MAX = '{"op":"copy"}', '{"op":"exp"}', '{"op":"maximum"}'


def test_a_cast_on_the_way_is_named_with_its_line_and_the_coarsest_counts():
    chain = Chain().step(EXP, F32, F32).step(COPY, F32, F16, 6).step(COPY, F16, F32, 7)
    chain = chain.step(COPY, F32, BF16, 8).step(COPY, BF16, F32, 9).step(EXP, F32, F32, 10, to=OUT)
    (found,) = chain.found()
    assert found == Rounding(dtype=BF16, line="k.py:8")
    assert str(found) == "bf16, which k.py:8 rounds to"


@pytest.mark.parametrize("dtype", [F16, BF16, F8])
def test_a_function_that_computes_in_a_type_rounds_to_it(dtype):
    (found,) = Chain().step(EXP, dtype, dtype).step(COPY, dtype, F32, to=OUT).found()
    assert found == Rounding(dtype=dtype, line="k.py:5")


@pytest.mark.parametrize(
    ("op", "inputs"),
    [(COPY, 1), (MAX, 2), ('{"op":"max","axis":1}', 1), ('{"op":"maximum","scalars":[0.5]}', 1), ('{"op":"neg"}', 1)],
)
def test_choices_of_values_in_a_type_round_nothing(op, inputs):
    assert Chain().step(op, BF16, BF16, inputs=inputs).step(COPY, BF16, F32, to=OUT).found() == [None]


def test_a_number_that_a_type_lacks_is_rounded():
    for number, found in (("0.1", Rounding(dtype=BF16, line="k.py:5")), ("0.25", None)):
        chain = Chain().step(f'{{"op":"maximum","scalars":[{number}]}}', BF16, BF16)
        assert chain.step(COPY, BF16, F32, to=OUT).found() == [found]


def test_the_type_of_the_output_itself_and_integers_count_as_they_are():
    assert Chain().step(EXP, F32, F32).step(COPY, F32, BF16, to=OUT).found(BF16) == [None]
    assert Chain().step(EXP, F32, F32).step(COPY, F32, I8).step(COPY, I8, F32, to=OUT).found() == [None]
    assert Chain().step(COPY, F32, BF16).step(COPY, BF16, I8, to=OUT).found(I8) == [None]


def test_only_ops_that_lead_to_the_output_count():
    chain = Chain().step(COPY, F32, BF16, 6, to=8192)  # nobody reads this
    chain = chain.step(EXP, F32, F32, 7, to=OUT)
    beside = [Rectangle.of_memory(HBM, 8192, 1, 8, 8)]
    assert chain.found(F32, beside) == [None, Rounding(dtype=BF16, line="k.py:6")]


def test_a_move_between_types_is_a_cast():
    builder = LogBuilder()
    for number, (source, target, at) in enumerate(((F32, F16, 64), (F16, F32, OUT))):
        sides = [
            move(Role.SRC, HBM, 64 * number, 1, 4 * source.nbytes, 4 * source.nbytes, source),
            move(Role.DST, HBM, at, 1, 4 * target.nbytes, 4 * target.nbytes, target),
        ]
        builder.add((number, 0, 0), OpKind.MEMORY, "store", sides, line=f"k.py:{number}")
    outputs = [[Rectangle.of_memory(HBM, OUT, 1, 16, 16)]]
    assert coarsest_roundings(builder.log(), outputs, [F32]) == [Rounding(dtype=F16, line="k.py:0")]
