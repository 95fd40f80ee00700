"""The schema of a line of a log of JSON lines, and the errors about lines that break it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from kb_dataexec.files import UnreadableJsonError, decode_text, json_decoder
from kb_messages import LOG_TABLES, SPACE_BY_CODE, DType, LogError, OpKind, Role

KINDS: Final = {kind.name.lower(): kind.value for kind in OpKind}
ROLES: Final = {role.name: role.value for role in Role}
DTYPES: Final = {str(dtype): dtype.info.code for dtype in DType}
SPACES: Final = {str(space): code for code, space in SPACE_BY_CODE.items()}

_CHOICES: Final[dict[str, Collection[str]]] = {
    "kind": KINDS,
    "role": ROLES,
    "dtype": DTYPES,
    "space": SPACES,
    **{
        column: tuple(member.name.lower() for member in code)
        for schema in LOG_TABLES.values()
        for column, code in schema.codes.items()
    },
}

Number: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Stage: TypeAlias = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
Time: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Owner: TypeAlias = Annotated[int, Meta(ge=1, le=2**30 - 1)]


class OperandLine(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An operand of an OpLine. `immediate`, in hexadecimal digits, replaces `owner` and `offset`."""

    role: str
    owner: Owner | UnsetType = UNSET
    offset: Time | UnsetType = UNSET
    immediate: str | UnsetType = UNSET
    rows: Count
    row_nbytes: Count
    stride: Time | UnsetType = UNSET
    dtype: str
    release: bool = False
    space: str | UnsetType = UNSET


class OpLine(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One line, an op. README.md specifies the defaults of missing fields."""

    kind: str
    operands: list[OperandLine]
    op_id: Number | UnsetType = UNSET
    command_seq: Number = 0
    tile_id: Number | UnsetType = UNSET
    stage_index: Stage = 0
    name: str | UnsetType = UNSET
    component: str = ""
    line: str = ""
    params: dict[str, Any] | UnsetType = UNSET
    depends_on: list[Number] = []
    t_ready_ps: Time | UnsetType = UNSET
    t_start_ps: Time = 0
    t_end_ps: Time | UnsetType = UNSET
    t_out_ps: Time | UnsetType = UNSET
    wait_channel_ps: Time = 0
    wait_tcm_port_ps: Time = 0
    wait_register_file_ps: Time = 0
    wait_compute_slot_ps: Time = 0
    wait_operand_ps: Time = 0
    wait_barrier_ps: Time = 0

    @property
    def times(self) -> tuple[int, int, int, int]:
        """Returns (t_ready_ps, t_start_ps, t_end_ps, t_out_ps), with defaults for missing fields."""
        start = self.t_start_ps
        ready = start if self.t_ready_ps is UNSET else self.t_ready_ps
        end = start if self.t_end_ps is UNSET else self.t_end_ps
        return ready, start, end, end if self.t_out_ps is UNSET else self.t_out_ps

    @property
    def waits(self) -> tuple[int, int, int, int, int, int]:
        """The waits in picoseconds, in the order of WaitReason."""
        return (
            self.wait_channel_ps, self.wait_tcm_port_ps, self.wait_register_file_ps,
            self.wait_compute_slot_ps, self.wait_operand_ps, self.wait_barrier_ps,
        )  # fmt: skip


decode_op: Final = json_decoder(OpLine)
"""Decodes a line as an OpLine. Raises UnreadableJsonError; `refusal` says why. Names of codes are not checked."""
_decode_any: Final = json_decoder(object)


def refusal(where: str, text: bytes) -> LogError:
    """Returns the error about *text*, a line that cannot be used. The error begins with *where*."""
    try:
        value = _decode_any(decode_text(text, where, "a JSON object a line,", LogError))
    except LogError as error:
        return error
    except UnreadableJsonError as error:
        return LogError(where, f"no JSON ({str(error)[:80]})", "a JSON object a line")
    return wrong_field(where, value, OpLine) or LogError(where, _short(value), "an op of a log")


def is_torn(text: bytes) -> bool:
    """Whether *text* is the beginning of a JSON object, but not a whole one."""
    try:
        _decode_any(text)
    except UnreadableJsonError as error:
        return text.lstrip().startswith(b"{") and "truncated" in str(error)
    return False


def wrong_field(where: str, value: Any, type_: type[Struct]) -> LogError | None:
    """Returns the first error of *value* as a *type_*; None without an error."""
    if not isinstance(value, dict):
        return LogError(where, _short(value), "a JSON object")
    fields = {field.name: field for field in msgspec.structs.fields(type_)}
    for name in value:
        if name not in fields:
            return LogError(where, f"an unknown field {_short(name)}", f"no others than {', '.join(fields)}")
    for name, field in fields.items():
        if field.required and name not in value:
            return LogError(where, f"no field {name}", f"{', '.join(_required(type_))} in every one")
    for name, item in value.items():
        if name == "operands" and isinstance(item, list):
            found = (wrong_field(f"{where}: operands[{at}]", each, OperandLine) for at, each in enumerate(item))
            error = next(filter(None, found), None)
            if error is not None:
                return error
        elif not _fits(name, item, fields[name].type):
            return LogError(f"{where}: {name}", _short(item), _needs(name, fields[name].type))
    return None


def _fits(name: str, item: Any, type_: Any) -> bool:
    try:
        msgspec.convert(item, type_)
    except msgspec.ValidationError:
        return False
    return name not in _CHOICES or item in _CHOICES[name]


def _required(type_: type[Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(type_) if field.required]


def _needs(name: str, type_: Any) -> str:
    if name in _CHOICES:
        return f"one of {', '.join(_CHOICES[name])}"
    if get_origin(type_) is list:
        return "a JSON list" if name == "operands" else "a JSON list of integers"
    types = [each for each in get_args(type_) or (type_,) if each is not UnsetType]
    for bounds in (*getattr(type_, "__metadata__", ()), *getattr(types[0], "__metadata__", ())):
        return f"an integer from {bounds.ge} to {bounds.le}"
    return {str: "a string", bool: "true or false"}.get(types[0], "a JSON object")


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
