"""Where: the attribution of the time of each launch to kernel lines and blocks, as rows that add up exactly."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from kb_dataexec.arrays.dtypes import Array

WHERE_FORMAT: Final = 1


class WhereRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ps` picoseconds of the critical path, in `segments` pieces that are equal in all other fields.

    `line` is the kernel line, or "" for work of no line. `block` is the kind of the block that worked, without its PE:
    `pe_gemm`, `hbm`, `links`, `io_cpu`, `host`; `program` is the kernel itself. `what` is the work of the block. `via`
    is the edge by which the work held up the next piece of the path.
    """

    line: str
    block: str
    what: str
    via: str
    ps: int
    segments: int


class PeWhere(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The launch as seen by each of `pes`, whose rows are equal. A PE with other rows has an entry of its own.

    `start_ps` and `end_ps` are the start and the end of the launch. The `ps` of `rows` add up to the time between them.
    """

    pes: list[str]
    start_ps: int
    end_ps: int
    rows: list[WhereRow]


class LaunchWhere(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the time of the launch number `launch` went, from the host's call at `start_ps` to its answer at `end_ps`.

    The `ps` of `rows` add up to the time between them, and so do the `ps` of each of `pes`, the view of a PE. The first
    kernel starts at `kernels_start_ps` and the last one ends at `kernels_end_ps`. Rows with `via` "launch" lie before,
    rows with `via` "answer" behind, and all other rows add up to the time between: the latency of `kb run`.

    `busy` has the picoseconds of work by block, added up over the blocks of that kind. `hidden` is the part of it that
    is not on the path. `ties` counts the segments at which several causes came at the same time.
    """

    launch: int
    start_ps: int
    kernels_start_ps: int
    kernels_end_ps: int
    end_ps: int
    rows: list[WhereRow]
    pes: list[PeWhere]
    busy: dict[str, int]
    hidden: dict[str, int]
    ties: int


class Where(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attribution of the time of a run. `missing` names the tables and columns that the log lacks.

    `unexplained_ps` are the picoseconds of all launch views without a known cause: the rows whose block is `unknown`.
    """

    launches: list[LaunchWhere]
    missing: list[str]
    unexplained_ps: int = 0
    format: int = WHERE_FORMAT


class PathColumns(NamedTuple):
    """The segments of a critical path, in order of time: each begins where the one before it ends.

    All arrays are int64 with one element for each segment. *op_id* is the op that worked, -1 for none. *pe*, *line*,
    *block*, *what* and *via* are numbers in *strings*, with the meaning of the fields of `WhereRow`. The PE is "" for
    work of no PE. *launch* is the number of the launch.
    """

    launch: int
    start_ps: Array
    end_ps: Array
    pe: Array
    line: Array
    block: Array
    what: Array
    via: Array
    op_id: Array
    strings: list[str]
