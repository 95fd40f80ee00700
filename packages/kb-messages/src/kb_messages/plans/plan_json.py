"""Commands and plans as JSON that other programs read and write: every enum by its name, in lower case.

The fields are the fields of the structs. Decoding accepts all texts that these functions write, and refuses all others.
It checks names, types, bounds, the operands of each type of stage, and that the sides of operands fit the grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NoReturn

import msgspec

from kb_messages.commands import Command
from kb_messages.errors import PlanError
from kb_messages.log.oplog import Role
from kb_messages.math.functions import MATH_FUNCTIONS
from kb_messages.memory.address import ADDRESS_BITS
from kb_messages.plans.lifetimes import lifetimes_of
from kb_messages.plans.plan import PipelinePlan
from kb_messages.plans.stages import Axis, OperandTemplate, Place, StageTemplate, StageType, When
from kb_messages.text import decode_text

_OF_STAGE: Final[Mapping[str, type[IntEnum]]] = {"stage_type": StageType, "when": When}
_OF_OPERAND: Final[Mapping[str, type[IntEnum]]] = {"role": Role, "place": Place, "when": When}
_NEEDED: Final[Mapping[StageType, tuple[Role, ...]]] = {
    StageType.DMA_READ: (Role.SRC,),
    StageType.FETCH: (),
    StageType.GEMM: (Role.A, Role.B, Role.OUT),
    StageType.MATH: (Role.OUT,),
    StageType.STORE: (),
    StageType.DMA_WRITE: (Role.DST,),
}
_END: Final = 1 << ADDRESS_BITS


def encode_plan(plan: PipelinePlan) -> bytes:
    """*plan* as JSON in UTF-8, with every enum by its name."""
    form = msgspec.to_builtins(plan)
    for stage in form["stages"]:
        _to_names(stage, _OF_STAGE)
        for operand in stage["operands"]:
            _to_names(operand, _OF_OPERAND)
    return msgspec.json.encode(form)


def decode_plan(text: bytes | str) -> PipelinePlan:
    """The plan that *text* holds as JSON. Raises PlanError for any text that `encode_plan` cannot have written."""
    form = _parse(text, "plan")
    for number, stage in enumerate(_items(form, "stages")):
        _to_numbers(f"plan stages[{number}]", stage, _OF_STAGE)
        for place, operand in enumerate(_items(stage, "operands")):
            _to_numbers(f"plan stages[{number}] operands[{place}]", operand, _OF_OPERAND)
    plan: PipelinePlan = _convert(form, PipelinePlan, "plan")
    check_plan(plan)
    return plan


def encode_command(command: Command) -> bytes:
    """*command* as JSON. Its `type` is `load`, `store`, `gemm`, `drain`, `atomic` or `math`."""
    return msgspec.json.encode(command)


def decode_command(text: bytes | str) -> Command:
    """The command that *text* holds as JSON. Raises PlanError for a text that is no command.

    The plan generator checks whether shapes and types of the command fit together.
    """
    command: Command = _convert(_parse(text, "command"), Command, "command")
    return command


def check_plan(plan: PipelinePlan) -> None:
    """Raises PlanError unless every stage of *plan* has its operands, and their sides fit the grid of *plan*.

    Every place in the PE that a stage reads must have a stage that writes the place.
    """
    for name in plan.buffers.__struct_fields__:
        nbytes = getattr(plan.buffers, name)
        if not 0 <= nbytes < _END:
            raise PlanError(f"plan buffers {name}", f"{nbytes}", "a number of bytes from 0 to 2^62")
    for number, stage in enumerate(plan.stages):
        where = f"plan stages[{number}]"
        _check_roles(where, stage)
        for place, operand in enumerate(stage.operands):
            _check_operand(f"{where} operands[{place}]", operand, plan.grid)
        _check_panel(where, stage, plan)
    lifetimes_of(plan.stages, plan.grid[2])


def _check_roles(where: str, stage: StageTemplate) -> None:
    roles = [operand.role for operand in stage.operands if operand.when is When.EVERY_TILE]
    needed = _NEEDED[stage.stage_type]
    if stage.stage_type is StageType.DMA_WRITE and stage.math is not None:
        needed = (Role.OUT,)
    missing = [role.name.lower() for role in needed if role not in roles]
    if missing:
        raise PlanError(where, f"no {missing[0]} operand", f"one in a {stage.stage_type.name.lower()} of every tile")
    if stage.stage_type is StageType.MATH:
        if stage.math is None or stage.math.op not in MATH_FUNCTIONS:
            raise PlanError(f"{where} math", "no known function", f"one of {', '.join(MATH_FUNCTIONS)}")
        if Role.IN not in roles and not MATH_FUNCTIONS[stage.math.op].generates:
            raise PlanError(where, "no in operand", "one in a math of every tile")
        if stage.math.axis not in (None, 0, 1):
            raise PlanError(f"{where} math axis", f"{stage.math.axis}", "0 or 1")
        if stage.math.group is not None and min(stage.math.group) < 1:
            raise PlanError(f"{where} math group", f"{stage.math.group}", "two positive numbers")


def _check_panel(where: str, stage: StageTemplate, plan: PipelinePlan) -> None:
    """A panel stays while the inner loop goes on, so its place must not depend on that loop."""
    inner = plan.loop_order.outer_first(0, 1)[1]
    if stage.fills_panel and any(operand.follows(inner) for operand in stage.operands):
        needs = f"one that stays the same over the inner loop, {'MN'[inner]}"
        raise PlanError(where, f"a panel that moves along {'MN'[inner]}", needs)


def _check_operand(where: str, operand: OperandTemplate, grid: tuple[int, int, int]) -> None:
    if not (0 <= operand.base < _END and 0 <= operand.stride < _END):
        raise PlanError(where, "a base or stride out of bounds", f"0 to {ADDRESS_BITS} bits")
    for name, side in (("rows", operand.rows), ("cols", operand.cols)):
        if not _fits(side, grid):
            needs = "positive sizes, cut into as many pieces as the grid has along that dimension"
            raise PlanError(f"{where} {name}", "a side that does not fit the grid", needs)


def _fits(side: Axis, grid: tuple[int, int, int]) -> bool:
    if not (0 < side.total < _END and 0 < side.tile < _END):
        return False
    if side.dimension is None:
        return True
    return 0 <= side.dimension < len(grid) and -(-side.total // side.tile) == grid[side.dimension]


def _parse(text: bytes | str, what: str) -> Any:
    import json  # takes milliseconds, which most users of this package do without

    decoded = decode_text(text, what, "a plan", PlanError) if isinstance(text, bytes) else text
    try:
        return json.loads(decoded, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except (ValueError, TypeError, RecursionError) as error:
        said = "nesting without end" if isinstance(error, RecursionError) else f"a text that is not JSON ({error})"
        raise PlanError(what, said, "JSON in UTF-8 whose keys occur once") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"the constant {name}")


def _convert(form: Any, kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(form, kind)
    except msgspec.ValidationError as error:
        raise PlanError(what, f"another form ({error})", "the fields of the struct and their types") from None


def _items(form: Any, key: str) -> list[Any]:
    found = form.get(key) if isinstance(form, dict) else None
    return found if isinstance(found, list) else []


def _to_names(form: dict[str, Any], enums: Mapping[str, type[IntEnum]]) -> None:
    form.update({key: enum(form[key]).name.lower() for key, enum in enums.items() if key in form})


def _to_numbers(where: str, form: Any, enums: Mapping[str, type[IntEnum]]) -> None:
    for key, enum in enums.items():
        if isinstance(form, dict) and key in form:
            names = {member.name.lower(): member.value for member in enum}
            value = form[key]
            if not isinstance(value, str) or value not in names:
                got = repr(value[:60]) if isinstance(value, str) else f"a value of type {type(value).__name__}"
                raise PlanError(f"{where} {key}", got, f"one of {', '.join(names)}")
            form[key] = names[value]
