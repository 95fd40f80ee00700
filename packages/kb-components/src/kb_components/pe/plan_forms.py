"""Plans of GEMMs on equal PEs: the plan of one is that of another, on its own blocks and at its own addresses.

A launch starts the same product on hundreds of PEs. Its plan is generated and checked for one of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

from kb_messages import ADDRESS_BITS, DType, GemmCommand, LoopOrder, Matrix, PipelinePlan, TileShape
from kb_plans import generate_gemm_plan

_MOST_FORMS: Final = 256
_INTEGERS: Final = {int}
_BOOLS: Final = {bool}
_MOST_TAKERS: Final = 64

Takers = dict[Hashable, Any]
"""The forms of PEs that have taken a plan of some form, each with what the ids in it stand for."""


class _KnownPlan(NamedTuple):
    """The first plan of a form. `numbers` tells for each of its addresses which matrix of the command it is that of."""

    plan: PipelinePlan
    numbers: Sequence[int]
    takers: Takers


class PlanForms:
    """The plans of products by all that is not their place: sizes, types, strides, tile, and what lies in TCM.

    It forgets all of them when they are many.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _KnownPlan] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, command: GemmCommand, pe: str) -> tuple[PipelinePlan, Takers | None]:
        """As `generate_gemm_plan`, the plan of *command*, which has a tile, on *pe*; and who took plans of its form.

        The latter is None for a plan that no other PE can have. Raises PlanError as `generate_gemm_plan` does.
        """
        acc = command.acc
        matrices = (command.a, command.b, command.out) if acc is None else (command.a, command.b, command.out, acc)
        is_plain = command.epilogue == () and not (command.acc_held or command.out_held)
        if not (is_plain and type(command.tile) is TileShape and all(map(_is_movable, matrices))):
            return generate_gemm_plan(command, pe), None
        addresses = [each.address for each in matrices]
        key = _key_of(command, matrices, addresses)
        known = None if key is None else self._known.get(key)
        if known is not None:
            if len(known.takers) >= _MOST_TAKERS:
                known.takers.clear()
            return known.plan.on(pe, [addresses[number] for number in known.numbers]), known.takers
        plan = generate_gemm_plan(command, pe)
        if key is None:
            return plan, None
        if len(self._known) >= _MOST_FORMS:
            self._known.clear()
        known = self._known[key] = _KnownPlan(plan, tuple(map(addresses.index, plan.addresses)), {})
        return plan, known.takers


def _key_of(command: GemmCommand, matrices: Sequence[Matrix], addresses: Sequence[int]) -> Hashable | None:
    """What commands of one form have in common: all but the *addresses* of their *matrices*. None for a value of a
    wrong type, because 1 equals 1.0 and True, and plans refuse these."""
    tile = command.tile
    assert tile is not None
    flags = (
        command.a_pinned, command.b_pinned, command.out_pinned, command.transpose_a, command.transpose_b,
        command.b_stream, command.acc_held, command.out_held,
    )  # fmt: skip
    sizes = [tile.m, tile.n, tile.k]
    for each in matrices:
        sizes += each.rows, each.cols, each.stride
    if {*map(type, sizes)} != _INTEGERS or {*map(type, flags)} != _BOOLS or type(command.loop_order) is not LoopOrder:
        return None
    is_one = tuple(map(addresses.index, addresses)) if len({*addresses}) < len(addresses) else None
    return *sizes, *flags, command.loop_order, *[each.dtype for each in matrices], is_one


def _is_movable(matrix: object) -> bool:
    """Whether *matrix* is a Matrix at a physical address and of the right types, which no plan has to check again.

    A text is encoded as the member of an enumeration that has it for a value, but plans refuse texts.
    """
    if type(matrix) is not Matrix or matrix.virtual is not None or type(matrix.dtype) is not DType:
        return False
    return type(matrix.address) is int and 0 <= matrix.address < 1 << ADDRESS_BITS


PLAN_FORMS: Final = PlanForms()
"""Those of the process: a plan follows from its command alone."""
