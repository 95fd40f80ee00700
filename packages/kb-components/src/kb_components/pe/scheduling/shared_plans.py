"""Plans shared by commands that differ only in the addresses of their operands.

A kernel issues the same few commands again and again, at other addresses. Such commands have equal keys. The plan of
the first command serves all of them, beside the addresses of each command (`PipelinePlan.addresses`).

A command that finds no plan here is planned, and a product asks PlanForms (plan_forms.py) on the way. These are two
stores, because they answer two questions. SharedPlans returns one object to all commands of a kind on a PE, and the log
and fast-forwarding recognise equal commands by that object. PlanForms returns a new object for each PE, because a plan
names the blocks of its PE. So a command after the first asks SharedPlans alone, and the first of each PE asks both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_messages import (
    OFFSET_BITS,
    Command,
    DrainCommand,
    GemmCommand,
    LoadCommand,
    Matrix,
    PipelinePlan,
    StoreCommand,
    SubmittedCommand,
    VectorCommand,
)

Addresses = tuple[int, ...]
"""The addresses of the matrices of a command, or of the operands of a plan."""

_MOST_PLANS: Final = 512


class _SharedPlan(NamedTuple):
    """A plan, and the sources of the addresses of its operands.

    A source is the number of a matrix of the command, and a distance in bytes from its address. `sources` is None where
    the addresses are the addresses of the matrices in their order. `of` keeps the object alive whose id is in the key.
    """

    plan: PipelinePlan
    sources: tuple[tuple[int, int], ...] | None
    of: object

    def addresses(self, matrices: Addresses) -> Addresses:
        """The addresses of the operands of the plan, for a command whose *matrices* have these addresses."""
        if self.sources is None:
            return matrices
        return tuple([matrices[number] + offset for number, offset in self.sources])


class SharedPlans:
    """The plans of one PE, by the keys of their commands. All plans are forgotten when there are too many."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, _SharedPlan] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def find(
        self, submitted: SubmittedCommand, make: Callable[[SubmittedCommand], PipelinePlan]
    ) -> tuple[PipelinePlan, Addresses | None]:
        """Returns (plan that the command shares with an earlier one, addresses of the operands).

        Without an earlier one, it is (plan that *make* returns, None), and later commands share this plan if they can.
        """
        command = submitted.command
        key, matrices = _key_of(command)
        known = self._plans.get(key)
        if known is not None:
            return known.plan, known.addresses(matrices)
        plan = make(submitted)
        if key is not None:
            self._keep(key, command, plan, matrices)
        return plan, None

    def find_for_all(self, like: Command, commands: Any) -> tuple[PipelinePlan, Sequence[Any]] | None:
        """Returns (plan that *like* shares with all *commands*, addresses of the operands); None if there is no such
        plan.

        *commands* is one command that has an array in the place of each address in which the commands differ. The
        addresses that are returned have arrays in the same way. The result is None too where an answer is not known.
        """
        key, keys = _key_of(like)[0], _key_of(commands)
        known = self._plans.get(key)
        if known is None or keys[0] is None or not _are_equal(key, keys[0]):
            return None
        return known.plan, known.addresses(keys[1])

    def _keep(self, key: Hashable, command: Command, plan: PipelinePlan, matrices: Addresses) -> None:
        of, addresses, sources = None, plan.addresses, None
        if isinstance(command, GemmCommand):
            if addresses != matrices:
                if not {*addresses} <= {*matrices}:
                    return  # its operands lie at places that do not follow from the matrices alone
                sources = tuple([(matrices.index(address), 0) for address in addresses])
        # The addresses of later tiles or pieces do not follow from the matrices.
        elif (plan.n_tiles > 1 and plan.has_transfers) or any(stage.in_pieces for stage in plan.stages):
            return
        elif isinstance(command, VectorCommand):
            of = command.program
        elif isinstance(command, LoadCommand) and command.fill is not None:
            sources = (0, 0), *((1, address - matrices[1]) for address in addresses[1:])
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[key] = _SharedPlan(plan, sources, of)


def _are_equal(key: Any, keys: Any) -> bool:
    """Whether *key* is equal to each of the *keys*, which have arrays where they may differ."""
    pairs = zip(key, keys, strict=False)
    return len(key) == len(keys) and all(one is other or bool(np.all(one == other)) for one, other in pairs)


def _key_of(command: Command) -> tuple[Hashable, Addresses]:
    """Returns (key of *command*, addresses of its matrices). Commands with equal keys differ only in these addresses.

    The key is None for a command that shares its plan with no other, and where a value has a type that no address has.
    """
    try:
        if isinstance(command, (LoadCommand, StoreCommand)):
            fill = None
            if type(command) is LoadCommand:
                fill = command.fill
            if not (command.pieces or (type(command) is LoadCommand and command.fills)):
                src, dst = command.src, command.dst
                source, target = src.address, dst.address
                return (
                    type(command), fill,
                    source >> OFFSET_BITS, src.rows, src.cols, src.stride, src.dtype,
                    target >> OFFSET_BITS, dst.rows, dst.cols, dst.stride, dst.dtype,
                ), (source, target)  # fmt: skip
        elif type(command) is VectorCommand:
            matrices = command.inputs + command.outputs
            return (id(command.program), *[each.stride for each in matrices]), tuple(
                [each.address for each in matrices]
            )
        elif type(command) is GemmCommand:
            if not command.epilogue:
                return _key_of_gemm(command)
        elif type(command) is DrainCommand:
            return (DrainCommand, command.src, *_form(command.dst)), (command.dst.address,)
    except TypeError:
        pass
    return None, ()


def _key_of_gemm(command: GemmCommand) -> tuple[Hashable, Addresses]:
    """The key and the addresses of a GEMM.

    A held sum lies at a fixed place of the register file, which the plan names.
    """
    a, b, out, acc = command.a, command.b, command.out, command.acc
    key: tuple[Hashable, ...] = (
        GemmCommand,
        command.tile,
        command.a_pinned, command.b_pinned, command.out_pinned,
        command.transpose_a, command.transpose_b, command.b_stream,
        command.loop_order,
        out if command.out_held else None,
        acc is None, command.acc_held,
        a.address >> OFFSET_BITS, a.rows, a.cols, a.stride, a.dtype,
        b.address >> OFFSET_BITS, b.rows, b.cols, b.stride, b.dtype,
    )  # fmt: skip
    addresses: Addresses = a.address, b.address
    if acc is not None and not command.acc_held:
        key, addresses = key + _form(acc), (*addresses, acc.address)
    if not command.out_held:
        key, addresses = key + _form(out), (*addresses, out.address)
    if len(set(addresses)) < len(addresses):
        return (*key, *map(addresses.index, addresses)), addresses  # which of them are at one address
    return key, addresses


def _form(matrix: Matrix) -> tuple[Hashable, ...]:
    """The facts about *matrix* that enter a plan, beside its address within its memory."""
    return matrix.address >> OFFSET_BITS, matrix.rows, matrix.cols, matrix.stride, matrix.dtype
