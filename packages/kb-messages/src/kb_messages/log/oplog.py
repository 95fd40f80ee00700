"""The schema of the op log: the content of a record, and the columns of its two tables.

`OpRecord` is a record as one object. In memory and on disk, records are two tables, `ops` and `operands`, and a blob of
immediates. `log_tables` describes the auxiliary tables of a log. `OPS_COLUMNS` and `OPERAND_COLUMNS` list the columns,
with little-endian numpy type strings. Columns of text (names, component ids, kernel lines, parameters) hold indices in
a table of strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from itertools import pairwise
from math import isfinite
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct

from kb_messages.dtypes import DType
from kb_messages.memory.address import MemorySpace

T = TypeVar("T")

LOG_FORMAT: Final = "kernbench-oplog"
LOG_FORMAT_VERSION: Final = 4


class OpKind(IntEnum):
    """The kinds of work for an executor: move bytes, multiply matrices, or apply a math function."""

    MEMORY = 0
    GEMM = 1
    MATH = 2


class Role(IntEnum):
    """The role of an operand in its op. The op writes DST and OUT and reads all other operands.

    A memory op lists its moves as SRC, DST, SRC, DST, ...: each DST takes the bytes of the SRC before it. ACC is the
    accumulator that a GEMM reads, and OUT the same bytes when the GEMM writes them. The inputs of a math op are IN, in
    the order of its arguments.
    """

    SRC = 0
    DST = 1
    A = 2
    B = 3
    ACC = 4
    OUT = 5
    IN = 6

    @property
    def is_write(self) -> bool:
        """Whether the op writes the operand."""
        return self in (Role.DST, Role.OUT)


class WaitReason(IntEnum):
    """Reasons why a stage starts later than its token is ready, in the order of the `wait_*_ps` columns."""

    CHANNEL = 0
    TCM_PORT = 1
    REGISTER_FILE = 2
    COMPUTE_SLOT = 3
    OPERAND = 4
    BARRIER = 5


class Operand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rectangle of bytes: `rows` runs of `row_nbytes`, `stride` bytes apart, from `offset` of memory `owner`.

    `owner` is `owner_of(...)`, and `join_address(owner, offset)` the physical address. With `release`, the read
    un-initialises the bytes, so another read before the next write is an error. For an immediate, `offset` counts from
    the start of the log's blob, and `owner` is 0.
    """

    role: Role
    space: MemorySpace
    owner: int
    offset: int
    rows: int
    row_nbytes: int
    stride: int
    dtype: DType
    release: bool = False


class OpRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage service of one token. Times are integer picoseconds, `t_ready <= t_start <= t_end <= t_out`.

    `waits_ps` (by WaitReason) adds up to `t_start - t_ready`. From `t_end` to `t_out` the token first waits for earlier
    transfers of its channel to leave, if several are under way at once, and then for room in the next queue.
    """

    op_id: int
    command_seq: int
    tile_id: int
    stage_index: int
    kind: OpKind
    name: str
    component: str
    line: str
    params: str
    t_ready_ps: int
    t_start_ps: int
    t_end_ps: int
    t_out_ps: int
    waits_ps: tuple[int, ...]
    operands: tuple[Operand, ...]


class GemmAttributes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The `params` of a GEMM record, as JSON. Operands give the shapes; the result is f32, or i32 for integers."""

    accumulate: bool = False
    transpose_a: bool = False
    transpose_b: bool = False


class NonFinite(StrEnum):
    """A scalar for which JSON has no number: an infinity or NaN."""

    INF = "inf"
    NEGATIVE_INF = "-inf"
    NAN = "nan"


Scalar: TypeAlias = float | NonFinite
"""The form of a number in records and plans: a finite float, or a NonFinite. `float` turns either into the number."""


def scalar_of(number: float) -> Scalar:
    """*number* in the form that records and plans store."""
    value = float(number)
    return value if isfinite(value) else NonFinite(str(value))


class MathAttributes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The `params` of a MATH record, as JSON.

    The function `op` takes the IN operands and the `scalars`. It computes in f32 for floats, in u64 where an operand is
    u64, and in i64 for all other integers. It broadcasts 2-D shapes by the rules of numpy, and casts the result to the
    type of OUT. `scalar_at` has the places of the scalars among the arguments, from 0 and ascending. Without
    `scalar_at`, scalars follow the operands. A reduction goes over `axis` (0 or 1), whose length becomes 1. A scan goes
    along `axis`, from the last element on with `reverse`. `sort` and `merge` are scans.

    `group` is (n, step). With `group`, a reduction or scan over axis 0 does not go over all rows, but over each n rows
    that are `step` rows apart: rows r, r + step, ... of each n * step rows. `spread` is the opposite: each n * step
    rows of its result are n times the `step` rows of its operand.

    `rearrange` and `combine` take the elements, counted row by row over all operands, at `first` plus index times
    `strides`, over indices of `lengths`.
    """

    op: str
    axis: int | None = None
    scalars: tuple[Scalar, ...] = ()
    scalar_at: tuple[int, ...] = ()
    reverse: bool = False
    group: tuple[int, int] | None = None
    lengths: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    first: int = 0

    def arguments(self, operands: Sequence[T]) -> list[T | float]:
        """*operands* and scalars in the order of the arguments of the function.

        Raises ValueError unless `scalar_at` has one place among the arguments for each scalar, ascending.
        """
        n_arguments = len(operands) + len(self.scalars)
        places = self.scalar_at or tuple(range(len(operands), n_arguments))
        fits = len(places) == len(self.scalars) and all(low < high for low, high in pairwise((-1, *places)))
        if not fits or places[-1:] >= (n_arguments,):
            raise ValueError(f"scalar_at {list(self.scalar_at)} of {len(self.scalars)} scalars")
        left, scalars = iter(operands), dict(zip(places, map(float, self.scalars), strict=True))
        return [scalars[at] if at in scalars else next(left) for at in range(n_arguments)]


OPS_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("op_id", "<i8"),
    ("command_seq", "<i8"),
    ("tile_id", "<i8"),
    ("stage_index", "<i2"),
    ("kind", "<i2"),
    ("name", "<i4"),
    ("component", "<i4"),
    ("line", "<i4"),
    ("params", "<i4"),
    ("t_ready_ps", "<i8"),
    ("t_start_ps", "<i8"),
    ("t_end_ps", "<i8"),
    ("t_out_ps", "<i8"),
    *((f"wait_{reason.name.lower()}_ps", "<i8") for reason in WaitReason),
)

OPERAND_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("op_id", "<i8"),
    ("role", "|i1"),
    ("space", "|i1"),
    ("dtype", "|i1"),
    ("release", "|i1"),
    ("owner", "<i4"),
    ("offset", "<i8"),
    ("rows", "<i8"),
    ("row_nbytes", "<i8"),
    ("stride", "<i8"),
)
