"""Check that a block which is asked about plans by their form refuses the same plans on every PE, at all addresses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from kb_engine.block.component import ComponentBase
from kb_engine.testing.subject import PE, Subject
from kb_engine.timing.clock import Clock
from kb_messages import (
    OFFSET_BITS,
    Axis,
    BufferNeeds,
    DType,
    MathAttributes,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageTemplate,
    StageType,
    When,
)

_OTHER_PE: Final = "sip1.cube2.pe3"
_ADDRESSES: Final = (1 << OFFSET_BITS, (2 << OFFSET_BITS) + 4096, (3 << OFFSET_BITS) + 64)
_FUNCTIONS: Final = ("add", "exp", "no such function")
_REGISTER_NBYTES: Final = (0, 1 << 10, 1 << 40)


def says_checks_by_form(impl: type[ComponentBase[Any]]) -> bool:
    """Whether *impl* itself states that its refusals follow from the form of a plan."""
    return bool(vars(impl).get("checks_by_form", False))


def check_checks_by_form(subject: Subject) -> None:
    """Equal blocks on two PEs refuse the same plans at all addresses, and a block asked again says the same.

    A plan that `check_addresses` refuses is refused by `check_plan` too, and is not compared.
    """
    here, there = subject.build(Clock()), subject.build(Clock(), pe=_OTHER_PE)
    for form in _forms():
        asked = [(here, PE, each) for each in (*_ADDRESSES, _ADDRESSES[0])] + [(there, _OTHER_PE, _ADDRESSES[2])]
        answers = {_refuses(subject, block, _plan(form, block, pe, address)) for block, pe, address in asked}
        if len(answers - {None}) > 1:
            got = f"a plan of {form[0]} and {form[1]!r} refused at one place or time and taken at another"
            fix = "refuse it in `check_addresses`, or leave out `checks_by_form`"
            subject.fail("check_plan", got, "one answer for all plans of a form", fix)


def _refuses(subject: Subject, block: ComponentBase[Any], plan: PipelinePlan) -> bool | None:
    """Whether *block* refuses the form of *plan*; None where it refuses the addresses."""
    at_addresses, at_all = (_raises(check, plan) for check in (block.check_addresses, block.check_plan))
    if at_addresses and not at_all:
        got = "a plan taken that `check_addresses` refuses"
        subject.fail("check_plan", got, "it refused", "call `self.check_addresses(plan)` there")
    return None if at_addresses else at_all


def _raises(check: Any, plan: PipelinePlan) -> bool:
    try:
        check(plan)
    except PlanError:
        return True
    return False


_Form = tuple[DType, str, int]
"""The type of the operands, the function of the MATH stage, and the bytes of registers."""


def _forms() -> Iterator[_Form]:
    return product((DType.F16, DType.F32, DType.I64), _FUNCTIONS, _REGISTER_NBYTES)


def _plan(form: _Form, block: ComponentBase[Any], pe: str, address: int) -> PipelinePlan:
    """A plan of *form* for *pe*, from and to memory at *address*, with the stages that *block* serves on it."""
    dtype, function, register_nbytes = form
    side = Axis(dimension=None, total=16, tile=16)

    def operand(role: Role, place: Place) -> OperandTemplate:
        base = address if place is Place.MEMORY else 0
        return OperandTemplate(
            role=role, place=place, base=base, rows=side, cols=side, stride=16 * dtype.nbytes, dtype=dtype
        )

    memory, tcm, registers = Place.MEMORY, Place.INPUT_BUFFER, Place.REGISTERS
    operands = {
        StageType.DMA_READ: (operand(Role.SRC, memory), operand(Role.DST, tcm)),
        StageType.FETCH: (operand(Role.SRC, tcm), operand(Role.DST, registers)),
        StageType.GEMM: (operand(Role.A, registers), operand(Role.B, registers), operand(Role.OUT, registers)),
        StageType.MATH: (operand(Role.IN, registers), operand(Role.OUT, registers)),
        StageType.STORE: (operand(Role.SRC, registers), operand(Role.DST, tcm)),
        StageType.DMA_WRITE: (operand(Role.SRC, tcm), operand(Role.DST, memory)),
    }
    stages = tuple(
        StageTemplate(
            stage_type=kind,
            component=block.node_id if kind in block.servers else f"{pe}.stub",
            when=When.EVERY_TILE,
            operands=operands[kind],
            math=MathAttributes(op=function) if kind is StageType.MATH else None,
        )
        for kind in StageType
    )
    needs = BufferNeeds(register_nbytes=register_nbytes)
    return PipelinePlan(kind="gemm", grid=(1, 1, 1), stages=stages, buffers=needs)
