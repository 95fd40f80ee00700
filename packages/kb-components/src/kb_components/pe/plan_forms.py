"""Plans of GEMMs on equal PEs: the plan of one is that of another, on its own blocks and at its own addresses.

A launch starts the same product on hundreds of PEs. Its plan is generated and checked for one of them.
"""

from __future__ import annotations

from typing import Final

from msgspec.msgpack import encode
from msgspec.structs import replace

from kb_messages import ADDRESS_BITS, OFFSET_BITS, DType, GemmCommand, LoopOrder, Matrix, PipelinePlan
from kb_plans import generate_gemm_plan

_MOST_FORMS: Final = 256
_MATRICES: Final = ("a", "b", "out", "acc")
_ANY_PE: Final = "pe"


class PlanForms:
    """The plans of products by all that is not their place: sizes, types, strides, tile, and what lies in TCM.

    It forgets all of them when they are many.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[PipelinePlan, tuple[int, ...]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def plan(self, command: GemmCommand, pe: str) -> PipelinePlan:
        """As `generate_gemm_plan`: the plan of *command*, which has a tile, on *pe*. Raises PlanError as that does."""
        matrices = {name: each for name in _MATRICES if (each := getattr(command, name)) is not None}
        is_held = command.acc_held or command.out_held
        is_movable = type(command.loop_order) is LoopOrder and all(map(_is_movable, matrices.values()))
        if command.epilogue or is_held or not is_movable:
            return generate_gemm_plan(command, pe)
        addresses = [each.address for each in matrices.values()]
        places = {
            name: replace(each, address=addresses.index(each.address) << OFFSET_BITS) for name, each in matrices.items()
        }
        form = replace(command, **places)
        try:
            key = encode(form)  # which tells 1 from 1.0 and from True
        except (TypeError, ValueError, OverflowError):
            return generate_gemm_plan(command, pe)
        known = self._known.get(key)
        if known is None:
            plan = generate_gemm_plan(form, _ANY_PE)
            known = plan, tuple([address >> OFFSET_BITS for address in plan.addresses])
            if len(self._known) >= _MOST_FORMS:
                self._known.clear()
            self._known[key] = known
        plan, numbers = known
        return plan.on(pe, [addresses[number] for number in numbers])


def _is_movable(matrix: object) -> bool:
    """Whether *matrix* is a Matrix at a physical address and of the right types, which no plan has to check again.

    A text is encoded as the member of an enumeration that has it for a value, but plans refuse texts.
    """
    if type(matrix) is not Matrix or matrix.virtual is not None or type(matrix.dtype) is not DType:
        return False
    return type(matrix.address) is int and 0 <= matrix.address < 1 << ADDRESS_BITS


PLAN_FORMS: Final = PlanForms()
"""Those of the process: a plan follows from its command alone."""
