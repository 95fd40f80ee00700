"""Plans of GEMMs on equal PEs, made from one another: the same plan on other blocks and at other addresses.

A launch starts the same product on hundreds of PEs. Its plan is generated and checked for one of them. Only the first
command of a kind on each PE comes here: SharedPlans (shared_plans.py) keeps the plans of a PE for later commands.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

from kb_messages import ADDRESS_BITS, DType, GemmCommand, LoopOrder, Matrix, PipelinePlan, TileShape
from kb_plans import generate_gemm_plan

_MOST_FORMS: Final = 256
_BOOLS: Final = {bool}
_END: Final = 1 << ADDRESS_BITS
_MOST_TAKERS: Final = 64

Takers = dict[Hashable, Any]
"""The PEs that accepted a plan of a form: by the form of the PE, the objects whose ids are in that form."""


class _KnownPlan(NamedTuple):
    """The first plan of a form. `numbers` has, for each of its addresses, the number of the matrix that lies there."""

    plan: PipelinePlan
    numbers: Sequence[int]
    takers: Takers


class PlanForms:
    """Keeps one plan of products for each form: sizes, types, strides, tile, and the operands that lie in TCM.

    The place of the product is no part of the form. All plans are forgotten when there are too many.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _KnownPlan] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, command: GemmCommand, pe: str) -> tuple[PipelinePlan, Takers | None]:
        """Returns (plan of *command* on *pe*, the PEs that accepted a plan of its form). *command* has a tile.

        The plan is equal to the one of `generate_gemm_plan`. The second item is None for a plan that no other PE can
        have. Raises PlanError in the same cases as `generate_gemm_plan`.
        """
        found = _form_of(command)
        if found is None:
            return generate_gemm_plan(command, pe), None
        key, addresses = found
        known = self._known.get(key)
        if known is not None:
            if len(known.takers) >= _MOST_TAKERS:
                known.takers.clear()
            return known.plan.on(pe, [addresses[number] for number in known.numbers]), known.takers
        plan = generate_gemm_plan(command, pe)
        if len(self._known) >= _MOST_FORMS:
            self._known.clear()
        known = self._known[key] = _KnownPlan(plan, tuple(map(addresses.index, plan.addresses)), {})
        return plan, known.takers


def _form_of(command: GemmCommand) -> tuple[Hashable, list[int]] | None:
    """Returns (form of *command*, addresses of its matrices).

    Commands of one form have plans that differ only in their place.

    None for a command whose plan no other PE can have: it has an epilogue, a held sum, or a matrix at a virtual
    address. None also for a value of a wrong type, because 1 equals 1.0 and True, and plans refuse these.
    """
    tile, acc = command.tile, command.acc
    if type(tile) is not TileShape or type(command.loop_order) is not LoopOrder or command.epilogue != ():
        return None
    m, n, k = tile.m, tile.n, tile.k
    flags = (
        command.a_pinned, command.b_pinned, command.out_pinned, command.transpose_a, command.transpose_b,
        command.b_stream, command.acc_held, command.out_held,
    )  # fmt: skip
    if not type(m) is type(n) is type(k) is int or {*map(type, flags)} != _BOOLS or True in flags[-2:]:
        return None
    key, addresses = [m, n, k, *flags, command.loop_order], []
    for each in (command.a, command.b, command.out) if acc is None else (command.a, command.b, command.out, acc):
        if type(each) is not Matrix or each.virtual is not None or type(each.dtype) is not DType:
            return None
        address, rows, cols, stride = each.address, each.rows, each.cols, each.stride
        if not type(address) is type(rows) is type(cols) is type(stride) is int or not 0 <= address < _END:
            return None
        key += rows, cols, stride, each.dtype
        addresses.append(address)
    if len({*addresses}) < len(addresses):
        key += map(addresses.index, addresses)
    return tuple(key), addresses


PLAN_FORMS: Final = PlanForms()
"""The one store of the process. All engines share it, because a plan depends on its command alone."""
