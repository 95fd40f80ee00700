"""PE_MATH: a vector unit, which works on one tile at a time, in groups of as many elements as it has lanes."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction
from typing import Annotated, Final

from msgspec import Meta, Struct

from kb_components.cost_fields import clock_ghz
from kb_engine.block import ComponentBase, Context, Rate
from kb_messages import MathParams, PipelinePlan, PlanError, StageParams, StageType


class FunctionClass(Enum):
    """The cost class of a function.

    An elementwise function takes a cycle for each group, a transcendental function `transcendental_cycles` for each
    group. A reduction adds a tree over the lanes once for each row, and a scan adds one in each group. The last five
    classes have one function each.
    """

    ELEMENTWISE = "elementwise"
    TRANSCENDENTAL = "transcendental"
    REDUCTION = "reduction"
    SCAN = "scan"
    SORT = "sort"
    MERGE = "merge"
    GATHER = "gather"
    HISTOGRAM = "histogram"
    PHILOX = "philox"


_BY_CLASS: Final = {
    FunctionClass.ELEMENTWISE: (
        "fill index copy spread neg abs relu not add sub mul maximum minimum maximum_number minimum_number "
        "eq ne lt le gt ge and or where fma cas "
        "sign floor ceil rint round trunc isnan isinf isfinite signbit copysign logb ldexp nextafter fdim "
        "bitcast rearrange combine lshift rshift bit_and bit_or bit_xor bit_not umulhi popcount clz ffs brev"
    ),
    FunctionClass.TRANSCENDENTAL: (
        "exp exp2 expm1 exp10 log log2 log1p log10 sqrt rsqrt cbrt rcbrt sin cos tan asin acos atan atan2 sinpi cospi "
        "sinh cosh tanh asinh acosh atanh hypot rhypot erf erfc erfcx erfinv erfcinv normcdf normcdfinv lgamma tgamma "
        "j0 j1 jn y0 y1 yn cyl_bessel_i0 cyl_bessel_i1 sigmoid gelu silu div pow fmod remainder floordiv mod tdiv trem"
    ),
    FunctionClass.REDUCTION: (
        "sum prod max min max_number min_number reduce_and reduce_or reduce_xor "
        "argmax argmin argmax_number argmin_number"
    ),
    FunctionClass.SCAN: "cumsum cumprod cummax cummin cummax_number cummin_number",
    FunctionClass.SORT: "sort",
    FunctionClass.MERGE: "merge",
    FunctionClass.GATHER: "gather",
    FunctionClass.HISTOGRAM: "histogram",
    FunctionClass.PHILOX: "philox",
}
FUNCTIONS: Final = {name: each for each, names in _BY_CLASS.items() for name in names.split()}
"""The class of every function. Source: assumed (fused multiply-adders and one table-driven unit a lane)."""
_FLAT: Final = FunctionClass.ELEMENTWISE, FunctionClass.TRANSCENDENTAL, FunctionClass.PHILOX
"""The classes whose groups go on from one row to the next."""
_PHILOX_CYCLES: Final = 10
"""The cycles of one round for a group: upper and lower halves of two products, four exclusive ors, two sums of keys."""


class PeMathSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`lanes` elements a group, at `clock_ghz`; `transcendental_cycles` a group of exp, division and the like."""

    lanes: Annotated[int, Meta(ge=1)]
    clock_ghz: Annotated[float, clock_ghz(("pe_math",))]
    queue_depth: Annotated[int, Meta(ge=1)] = 2
    transcendental_cycles: Annotated[int, Meta(ge=1)] = 4


class PeMath(ComponentBase[PeMathSpec]):
    """Holds the lanes for a tile's cycles. Operands are already in the register file."""

    spec_type = PeMathSpec
    serves = (StageType.MATH,)
    checks_by_form = True

    def __init__(self, spec: PeMathSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._clock = Rate.from_ghz(spec.clock_ghz)

    def service_ps(self, params: StageParams) -> int:
        """Picoseconds that a tile holds the lanes. Raises PlanError for an unknown function.

        Elementwise and transcendental: `ceil(rows * cols / lanes)` groups. A reduction adds up along its axis, lane by
        lane: over rows (axis 0) every row takes `ceil(cols / lanes)` cycles; over columns (axis 1) every row takes the
        same and a tree over the lanes in use, `ceil(log2(min(cols, lanes)))` cycles. A scan over rows costs as much as
        a reduction. In a scan over columns each group is passed over `ceil(log2(min(cols, lanes)))` times, and once
        more to add the total of the groups before it. Source: assumed (scans: Hillis and Steele, "Data parallel
        algorithms", 1986).

        A sort passes over every group `k (k + 1) / 2` times, with `k = ceil(log2(n))` of the n elements along its axis,
        and a merge of two sorted parts, which is the last stage of a sort, `k` times. Source: Batcher, "Sorting
        networks and their applications", 1968; a cycle for each compare and exchange is assumed.

        Source of the next three: assumed. A gather looks, for each group of its index, at each group of the row from
        which it chooses, or over rows at each of the rows. A histogram counts an element a cycle. Philox takes 10
        cycles a group for each round.
        """
        assert isinstance(params, MathParams)
        lanes, rows, cols = self.spec.lanes, params.rows, params.cols
        function = self._function(params.op)
        passes = self._passes(function, params)
        if function is FunctionClass.HISTOGRAM:
            return self._clock.ps(rows * cols)
        if function in _FLAT:
            return self._clock.ps(-(-rows * cols // lanes) * passes)
        tree = (min(cols, lanes) - 1).bit_length() if function is FunctionClass.REDUCTION and params.axis == 1 else 0
        return self._clock.ps(rows * (-(-cols // lanes) * passes + tree))

    def least_ps(self, stage_type: StageType, params: StageParams) -> Fraction | None:
        """The elements of a tile with every lane busy, in each of the passes over them.

        The tree at the end of a reduction is left out. A histogram uses one lane.
        """
        assert isinstance(params, MathParams)
        function = self._function(params.op)
        lanes = 1 if function is FunctionClass.HISTOGRAM else self.spec.lanes
        return params.rows * params.cols * self._passes(function, params) * self._clock.ps_each / lanes

    def _passes(self, function: FunctionClass, params: MathParams) -> int:
        """The cycles that a group of elements takes: how often the function passes over the group."""
        along = params.cols if params.axis == 1 else params.rows
        if function is FunctionClass.SORT or function is FunctionClass.MERGE:
            steps = (along - 1).bit_length()
            return max(1, steps * (steps + 1) // 2 if function is FunctionClass.SORT else steps)
        if function is FunctionClass.GATHER:
            return -(-params.depth // self.spec.lanes) if params.axis == 1 else params.depth
        if function is FunctionClass.SCAN and params.axis == 1:
            return (min(params.cols, self.spec.lanes) - 1).bit_length() + 1
        if function is FunctionClass.PHILOX:
            return _PHILOX_CYCLES * params.depth
        return self.spec.transcendental_cycles if function is FunctionClass.TRANSCENDENTAL else 1

    def check_plan(self, plan: PipelinePlan) -> None:
        """Raises PlanError for an unknown function."""
        for stage in plan.stages:
            if stage.math is not None:
                self._function(stage.math.op)

    def _function(self, op: str) -> FunctionClass:
        function = FUNCTIONS.get(op)
        if function is None:
            raise PlanError(self.node_id, f"the function {op!r}", f"one of {', '.join(FUNCTIONS)}")
        return function
