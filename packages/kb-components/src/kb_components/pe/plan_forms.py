"""Plans of GEMMs on equal PEs: the plan of one is that of another, on its own blocks and at its own addresses.

A launch starts the same product on hundreds of PEs. Its plan is generated and checked for one of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.msgpack import encode
from msgspec.structs import replace

from kb_messages import ADDRESS_BITS, OFFSET_BITS, DType, GemmCommand, LoopOrder, Matrix, PipelinePlan
from kb_plans import generate_gemm_plan

_MOST_FORMS: Final = 256
_MATRICES: Final = ("a", "b", "out", "acc")
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
        self._known: dict[bytes, _KnownPlan] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, command: GemmCommand, pe: str) -> tuple[PipelinePlan, Takers | None]:
        """As `generate_gemm_plan`, the plan of *command*, which has a tile, on *pe*; and who took plans of its form.

        The latter is None for a plan that no other PE can have. Raises PlanError as `generate_gemm_plan` does.
        """
        matrices = {name: each for name in _MATRICES if (each := getattr(command, name)) is not None}
        is_held = command.acc_held or command.out_held
        is_movable = type(command.loop_order) is LoopOrder and all(map(_is_movable, matrices.values()))
        if command.epilogue or is_held or not is_movable:
            return generate_gemm_plan(command, pe), None
        addresses = [each.address for each in matrices.values()]
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


def _key_of(command: GemmCommand, matrices: Mapping[str, Matrix], addresses: Sequence[int]) -> bytes | None:
    """What commands of one form have in common: all but the *addresses* of their *matrices*. None where nobody knows.

    It tells 1 from 1.0 and from True.
    """
    places = {
        name: replace(each, address=addresses.index(each.address) << OFFSET_BITS) for name, each in matrices.items()
    }
    try:
        return encode(replace(command, **places))
    except (TypeError, ValueError, OverflowError):
        return None


def _is_movable(matrix: object) -> bool:
    """Whether *matrix* is a Matrix at a physical address and of the right types, which no plan has to check again.

    A text is encoded as the member of an enumeration that has it for a value, but plans refuse texts.
    """
    if type(matrix) is not Matrix or matrix.virtual is not None or type(matrix.dtype) is not DType:
        return False
    return type(matrix.address) is int and 0 <= matrix.address < 1 << ADDRESS_BITS


PLAN_FORMS: Final = PlanForms()
"""Those of the process: a plan follows from its command alone."""
