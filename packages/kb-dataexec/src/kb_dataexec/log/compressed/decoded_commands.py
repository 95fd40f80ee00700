"""The plans of the commands of a chunk of formulas, and whether plans of two chunks are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.compressed.chunk_format import CAUSES, COMMAND_TIMES, KINDS, SLOTS, ints, part_sizes, unpack_chunk
from kb_dataexec.log.compressed.command import CommandLike, LoggedCommand, LoggedIssue
from kb_dataexec.log.compressed.compressed_rows import (
    DISPATCHES,
    RECORDS,
    TRANSFERS,
    WAITS,
    CompressedRows,
    CompressedTables,
    Part,
    Repeat,
    Table,
)
from kb_dataexec.log.compressed.expected_rows import IsolatedRows
from kb_dataexec.log.compressed.row_maker import Places
from kb_messages import (
    ADDRESS_BITS,
    OFFSET_BITS,
    KbError,
    LogError,
    PipelinePlan,
    Place,
    decode_plan,
    encode_plan,
    join_address,
)


class _Form:
    """The form that plans of a chunk have, as the chunk tells it in *line*."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.plan = decode_plan(line)

    @cached_property
    def key(self) -> bytes:
        """What is equal for two forms if they differ in addresses, components and lines alone.

        Bytes are compared, because NaN equals nothing, and -0.0 equals 0.0.
        """
        plan = self.plan.at([0] * len(self.plan.addresses))
        return encode_plan(replace(plan, stages=tuple(replace(each, component="", line="") for each in plan.stages)))


class DecodedPlan(NamedTuple):
    """*plan*, which has *form*, and the numbers of the texts of its stages: those of `component` and `line`."""

    plan: PipelinePlan
    form: _Form
    texts: Sequence[Sequence[int]]

    def is_like(self, other: DecodedPlan) -> bool:
        """Whether *other*, which may be of another chunk of the log, differs in addresses at most."""
        is_same = self.form.line == other.form.line or self.form.key == other.form.key
        return is_same and self.texts == other.texts


def decoded_plans(
    tables: Mapping[str, Array], lines: Sequence[bytes], text_of: Callable[[int], str]
) -> list[DecodedPlan]:
    """The plans of a chunk with *tables* and the *lines* of its forms. *text_of* gives the text of a number.

    Raises KbError for a line that is no plan, and ValueError for stages that no plan has.
    """
    forms, stages, plans = [*map(_Form, lines)], iter(ints(tables["stages"]).tolist()), []
    for (number,) in ints(tables["plans"]).tolist():
        form = forms[number]
        texts = [next(stages) for _ in form.plan.stages]
        found = [
            replace(stage, component=text_of(component), line=text_of(line) if line >= 0 else "")
            for stage, (component, line) in zip(form.plan.stages, texts, strict=True)
        ]
        plans.append(DecodedPlan(replace(form.plan, stages=tuple(found)), form, texts))
    check_all_taken("stages", stages)
    return plans


def check_all_taken(name: str, rows: Iterator[object]) -> None:
    """Raises ValueError where *rows* of the table *name* are left."""
    if next(rows, None) is not None:
        raise ValueError(f"rows of {name} that belong to nothing")


_MISFITS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""What a forged chunk comes to where a number in it stands for something that is not there."""
_NEEDS: Final = "a log as it was written"
_FORMS: Final = RECORDS, WAITS, DISPATCHES, TRANSFERS
_PENDING: Final = -1
_MOST_CHUNK_RECORDS: Final = 1 << 20
_MOST_UNORDERED: Final = 1 << 24
"""Rows that may have to be sorted, where some that an earlier chunk left come before them. Source: assumed; 640 MB."""

_ROWS_AT_ONCE: Final = 1 << 9
"""Rows of commands of which lists are made at a time. Source: assumed; the youngest objects are 700."""


@contextmanager
def read_as_written(where: str) -> Iterator[None]:
    """Raise LogError, which begins with *where*, for what a chunk comes to that no CompressedWriter made."""
    try:
        yield
    except KbError as error:
        if str(error).startswith(where):
            raise
        raise LogError(where, f"a chunk that says: {error}", _NEEDS) from None
    except _MISFITS as error:
        raise LogError(where, f"formulas that do not fit together ({repr(error)[:120]})", _NEEDS) from None


class _Slots(Struct, frozen=True):
    base: int
    nbytes: int
    count: int
    first: int

    @property
    def can_be(self) -> bool:
        """Whether a memory may have them."""
        is_positive = self.base >= 0 and self.nbytes >= 0 and self.count >= 1 and 0 <= self.first < 1 << OFFSET_BITS
        return is_positive and self.base + self.count * self.nbytes <= 1 << OFFSET_BITS


class _Placement(NamedTuple):
    input: _Slots | None
    panel: _Slots | None
    output: _Slots | None
    registers: _Slots | None
    accumulators: _Slots | None
    moved: Mapping[Place, Mapping[int, int]]

    def goes_on(self, told: _Placement) -> bool:
        """Whether all that was *told* is here."""
        are_slots_same = all(then is None or then == now for then, now in zip(told[:-1], self[:-1], strict=True))
        pieces = [(pieces, self.moved.get(place, {})) for place, pieces in told.moved.items()]
        return are_slots_same and all(then.items() <= now.items() for then, now in pieces)


class DecodedChunk(NamedTuple):
    """What a chunk tells: the time before which its rows came, the rows that no formula of a closed command has, and
    the closed commands of which rows are left, by their first ops, with their formulas where these are new. `tables`
    are all tables of the chunk."""

    before_ps: int
    pending: CompressedTables
    closed: dict[int, IsolatedRows | None]
    tables: dict[str, Array]


class DecodedCommands:
    """Reads the chunks of a `CompressedWriter`, one after the other. *strings* are those of the log.

    A chunk tells of commands: those that are new, and those that were told and were not done, again. It has formulas,
    which later chunks may refer to by number, and names the closed commands of which rows are left, by their first op.
    `commands` has all that were told, by their first op, until the caller says that they are finished. `places` are
    known from the first chunk on.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._number_of = {text: number for number, text in enumerate(strings)}
        self.commands: dict[int, LoggedCommand] = {}
        self._begun: dict[int, tuple[DecodedPlan, _Placement]] = {}
        self._finished = -1
        self.places: Places | None = None
        self._formulas: dict[int, CompressedTables] = {}

    def read(self, data: bytes, where: str, rest: Sequence[Table]) -> DecodedChunk:
        """What the chunk *data* tells. *rest* are rows of each kind that earlier chunks left.

        Raises LogError, which begins with *where*, for bytes that are no chunk. Call it in `read_as_written`.
        """
        tables, forms = unpack_chunk(data, where)
        ((before_ps, chunk_records),) = ints(tables["chunk"]).tolist()
        if self.places is None:
            self.places = self._places(tables["pes"], chunk_records)
        self._add_commands(tables, decoded_plans(tables, forms, self._text))
        pending = self._add_compressed(tables, rest)
        return DecodedChunk(before_ps, pending, self._closed(tables), tables)

    def intern(self, text: str) -> int:
        """The number of *text*. Raises KeyError for one that the log does not have."""
        return self._number_of[text]

    def _text(self, number: int) -> str:
        if number < 0:
            raise IndexError(f"string {number}")
        return self._strings[number]

    def _places(self, pes: Array, chunk_records: int) -> Places:
        rows = [(self._text(pe), tcm, registers) for pe, tcm, registers in ints(pes).tolist()]
        for _, *owners_of_pe in rows:
            for owner in owners_of_pe:
                _within(max(owner, 0), ADDRESS_BITS - OFFSET_BITS)
        numbers = {pe: number for number, (pe, _, _) in enumerate(rows)}
        owners = {pe: tcm for pe, tcm, _ in rows}, {pe: registers for pe, _, registers in rows}
        return Places(numbers, owners, min(max(chunk_records, 1), _MOST_CHUNK_RECORDS))

    def _add_commands(self, tables: dict[str, Array], plans: Sequence[DecodedPlan]) -> None:
        addresses, moved = _addresses(ints(tables["addresses"])), iter(ints(tables["moved"]).tolist())
        slots: list[_Slots | None] = [*(_Slots(*row) for row in ints(tables["slots"]).tolist()), None]
        if any(each is not None and not each.can_be for each in slots):
            raise ValueError("slots of a buffer that no memory has")
        n_others, n_addresses = len(COMMAND_TIMES) + len(CAUSES), [len(each.plan.addresses) for each in plans]
        known: dict[tuple[int, ...], _Placement] = {}  # many commands have the same places
        strings, rows = self._strings, ints(tables["commands"])
        if rows[:, 2:4].min(initial=0) < 0:
            raise IndexError("a text before the first one")
        for row in _each(rows):
            first_op, seq, pe, line, number, n_moved, *others = row
            cuts = tuple(others[n_others:])
            placement = known.get(cuts)
            if placement is None or n_moved:
                places: dict[Place, dict[int, int]] = {}
                for _ in range(n_moved):
                    place, piece, offset = next(moved)
                    places.setdefault(Place(place), {})[piece] = _within(offset, OFFSET_BITS)
                placement = _Placement(**dict(zip(SLOTS, (slots[cut] for cut in cuts), strict=True)), moved=places)
                if not n_moved:
                    known[cuts] = placement
            issued = LoggedIssue(seq, strings[pe], strings[line])
            at = tuple(islice(addresses, n_addresses[number]))
            if len(at) < n_addresses[number]:
                raise ValueError("a command without addresses")
            plan = plans[number]
            self._add(LoggedCommand(first_op, issued, plan.plan, at, placement, *others[:n_others]), plan, placement)
        for name, left in (("addresses", addresses), ("moved", moved)):
            check_all_taken(name, left)

    def _add(self, command: LoggedCommand, plan: DecodedPlan, placement: _Placement) -> None:
        """Keep *command*. Raises ValueError where it was told otherwise before: its rows would depend on the chunk."""
        first_op = command.first_op
        told = self.commands.get(first_op)
        is_new = told is None and first_op > self._finished
        if not is_new and (told is None or not self._goes_on(command, told, plan, placement)):
            raise ValueError(f"the command of op {first_op}, which an earlier chunk tells of otherwise")
        self.commands[first_op] = command
        if command.t_done_ps < 0:
            self._begun[first_op] = plan, placement

    def _goes_on(self, now: LoggedCommand, told: LoggedCommand, plan: DecodedPlan, placement: _Placement) -> bool:
        """Whether *now* is the command that was *told*, which was not done, with as much or more known of it."""
        if told.t_done_ps >= 0 or (told.submitted, told.addresses) != (now.submitted, now.addresses):
            return False
        known_plan, known_placement = self._begun.pop(now.first_op)
        return plan.is_like(known_plan) and placement.goes_on(known_placement)

    def finish(self, commands: Iterable[CommandLike]) -> None:
        """Forget the first *commands*, whose rows are written."""
        for each in commands:
            del self.commands[each.first_op]
            self._finished = each.first_op

    def _add_compressed(self, tables: dict[str, Array], rest: Sequence[Table]) -> CompressedTables:
        """Keep the formulas of the chunk. Returns the one that no closed command has."""
        part_sizes(tables)
        left = [ints(tables[kind]) for kind in KINDS]
        left_before: list[list[Part]] = [[rows] if len(rows) else [] for rows in rest] or [[], [], [], []]
        found = {_PENDING: left_before}
        for number, kind, n_rows, n, ops, ps in ints(tables["parts"]).tolist():
            parts = found.setdefault(number, [[], [], [], []])[kind]
            if n_rows < 0:
                parts.append(Repeat(-n_rows, n, ops, ps))
            else:
                parts.append(left[kind][:n_rows])
                left[kind] = left[kind][n_rows:]
        for number, kinds in found.items():
            formulas = self._formulas[number] = CompressedTables(*map(CompressedRows, _FORMS, kinds))
            for formula in formulas:
                _check(formula, _MOST_UNORDERED if number == _PENDING else 0)
        return self._formulas.pop(_PENDING)

    def _closed(self, tables: dict[str, Array]) -> dict[int, IsolatedRows | None]:
        memories, found = iter(ints(tables["memories"])[:, 0].tolist()), dict[int, IsolatedRows | None]()
        for first_op, begin_ps, end_ps, number, n_memories in ints(tables["closed"]).tolist():
            mine = [next(memories) for _ in range(n_memories)]
            found[first_op] = IsolatedRows(self._formulas[number], mine, (begin_ps, end_ps)) if number >= 0 else None
        check_all_taken("memories", memories)
        return found


def _within(value: int, bits: int) -> int:
    """*value*, which has so many *bits*. Raises ValueError for another."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{value} where {bits} bits have room")
    return value


def _addresses(rows: Table) -> Iterator[int]:
    """The addresses whose owners and offsets *rows* are. Raises ValueError for what no memory has."""
    owners, offsets = rows.T
    for column, bits in ((owners, ADDRESS_BITS - OFFSET_BITS), (offsets, OFFSET_BITS)):
        for value in (column.min(initial=0), column.max(initial=0)):
            _within(int(value), bits)
    return map(join_address, owners.tolist(), offsets.tolist())


def _each(rows: Table) -> Iterator[list[int]]:
    """Each of *rows*, some at a time: very many lists take long, because Python's collector goes through them."""
    for begin in range(0, len(rows), _ROWS_AT_ONCE):
        yield from rows[begin : begin + _ROWS_AT_ONCE].tolist()


def _check(formula: CompressedRows, most_unordered: int) -> None:
    """Raises ValueError for rows that came in no order, and are more than *most_unordered*, or too late for 64 bits.

    So a number of repetitions that somebody forged takes no memory: rows are made as their times come.
    """
    if formula.last_ps >= 1 << 63:
        raise ValueError("a time beyond 64 bits")
    if formula.n_rows > most_unordered and not formula.is_in_order:
        raise ValueError("rows in another order than that of their times")
