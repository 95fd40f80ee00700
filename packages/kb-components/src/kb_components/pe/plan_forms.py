"""Plans of GEMMs on equal PEs: the plan of one is that of another, on its own blocks and at its own addresses.

A launch starts the same product on hundreds of PEs. Its plan is generated and checked for one of them.
"""

from __future__ import annotations

from typing import Final

from msgspec.msgpack import encode
from msgspec.structs import replace

from kb_messages import ADDRESS_BITS, OFFSET_BITS, GemmCommand, Matrix, PipelinePlan
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
        if command.epilogue or command.acc_held or command.out_held or not all(map(_is_movable, matrices.values())):
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


def _is_movable(matrix: Matrix) -> bool:
    """Whether *matrix* is at a physical address of the right type, so that none of it has to be checked by a plan."""
    address: object = matrix.address
    return matrix.virtual is None and type(address) is int and 0 <= address < 1 << ADDRESS_BITS


PLAN_FORMS: Final = PlanForms()
"""Those of the process: a plan follows from its command alone."""
