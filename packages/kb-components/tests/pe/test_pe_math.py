from fractions import Fraction

import pytest

from kb_components.pe.pe_math import FUNCTIONS, PeMath, PeMathSpec
from kb_engine.block import Context
from kb_engine.timing import Clock
from kb_messages import DType, MathParams, PlanError, StageType


def unit(lanes=16, clock_ghz=1.0, **more):
    spec = PeMathSpec(lanes=lanes, clock_ghz=clock_ghz, **more)
    return PeMath(spec, Context("sip0.cube0.pe0.pe_math", Clock(), None, 0))


def math(op, rows, cols, axis=None, depth=1):
    return MathParams(op=op, rows=rows, cols=cols, dtype=DType.F32, axis=axis, depth=depth)


@pytest.mark.parametrize(
    ("params", "cycles"),
    [
        (math("add", 16, 16), 256 // 16),
        (math("relu", 1, 1), 1),
        (math("mul", 3, 11), 3),  # 33 elements: two groups of 16 and one more
        (math("where", 4, 16), 4),
        (math("exp", 16, 16), 4 * 16),
        (math("div", 1, 17), 4 * 2),
        (math("gelu", 1, 16), 4),
        (math("sum", 8, 16, 0), 8),  # lane by lane, a row a cycle
        (math("sum", 8, 16, 1), 8 * (1 + 4)),  # and a tree of log2(16) for each row
        (math("max", 8, 40, 0), 8 * 3),
        (math("max", 8, 40, 1), 8 * (3 + 4)),
        (math("min", 8, 5, 1), 8 * (1 + 3)),  # five lanes in use: three levels
        (math("erf", 1, 16), 4),
        (math("index", 4, 16), 4),
        (math("argmax", 8, 40, 1), 8 * (3 + 4)),
        (math("cumsum", 8, 40, 0), 8 * 3),
        (math("cumsum", 8, 40, 1), 8 * 3 * (4 + 1)),  # each group doubles four times, and gets the sum before it
        (math("sort", 8, 40, 1), 8 * 3 * 21),  # 64 places: six stages of one to six steps
        (math("sort", 5, 40, 0), 5 * 3 * 6),  # eight rows: three stages
        (math("sort", 8, 1, 1), 8),
        (math("merge", 8, 40, 1), 8 * 3 * 6),  # the last of the six stages
        (math("merge", 5, 40, 0), 5 * 3 * 3),
        (math("merge", 8, 1, 1), 8),
        (math("rearrange", 8, 40), 320 // 16),
        (math("combine", 3, 11), 3),
        (math("bitcast", 1, 17), 2),
        (math("histogram", 3, 11), 33),
        (math("gather", 8, 20, 1, depth=40), 8 * 2 * 3),  # two groups of the index, three of the source
        (math("gather", 8, 20, 0, depth=7), 8 * 2 * 7),
        (math("philox", 1, 33, depth=10), 3 * 100),
        (math("philox", 2, 8, depth=7), 70),
        (math("sum", 8, 1, 1), 8),  # one element is its own sum
    ],
    ids=lambda each: f"{each.op} {each.rows}x{each.cols} {each.axis}" if isinstance(each, MathParams) else "",
)
def test_cost_in_cycles(params, cycles):
    assert unit().service_ps(params) == cycles * 1000


@pytest.mark.parametrize(
    ("params", "cycles"),
    [
        (math("add", 3, 11), Fraction(33, 16)),  # no lane is idle
        (math("exp", 3, 11), Fraction(4 * 33, 16)),
        (math("sum", 8, 40, 1), Fraction(320, 16)),  # without the tree
        (math("cumsum", 8, 40, 1), Fraction(320, 16) * 5),
        (math("sort", 8, 40, 1), Fraction(320, 16) * 21),
        (math("merge", 5, 40, 0), Fraction(200, 16) * 3),
        (math("gather", 8, 20, 1, depth=40), Fraction(160, 16) * 3),
        (math("philox", 1, 33, depth=10), Fraction(33, 16) * 100),
        (math("histogram", 3, 11), 33),  # an element a cycle
    ],
    ids=lambda each: f"{each.op} {each.rows}x{each.cols} {each.axis}" if isinstance(each, MathParams) else "",
)
def test_the_least_time_has_every_lane_at_work(params, cycles):
    assert unit().least_ps(StageType.MATH, params) == cycles * 1000
    assert unit(clock_ghz=2.0).least_ps(StageType.MATH, params) == cycles * 500


def test_the_clock_and_the_cost_of_transcendentals_are_the_topologys():
    # 16 groups of 7 cycles at 0.7 GHz: 112 x 1000 / 0.7 = 160000.
    assert unit(clock_ghz=0.7, transcendental_cycles=7).service_ps(math("exp", 16, 16)) == 160000
    # 46 cycles: 65714.28, rounded up once.
    assert unit(lanes=1, clock_ghz=0.7).service_ps(math("add", 46, 1)) == 65715


def test_an_unknown_function_is_refused():
    with pytest.raises(PlanError) as caught:
        unit().service_ps(math("gamma", 1, 1))
    assert str(caught.value) == (
        f"sip0.cube0.pe0.pe_math: got the function 'gamma', needs one of {', '.join(FUNCTIONS)}"
    )


def test_it_serves_math_at_a_pure_cost():
    assert unit().serves == (StageType.MATH,)
    assert unit().has_pure_cost
    assert unit(queue_depth=7).queue_depth(StageType.MATH) == 7
