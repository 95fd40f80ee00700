"""DecodedCommands: decodes chunks of compressed rows, one after the other: commands, plans, and the rows themselves.

A chunk can come from a damaged or forged file. So every number is checked before rows are made of it.
"""

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
    """A plan form of a chunk: the JSON *line*, and the plan that the line decodes to."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.plan = decode_plan(line)

    @cached_property
    def key(self) -> bytes:
        """A key that is equal for two forms that differ only in addresses, components and kernel lines.

        The key is bytes, because NaN equals nothing, and -0.0 equals 0.0.
        """
        plan = self.plan.at([0] * len(self.plan.addresses))
        return encode_plan(replace(plan, stages=tuple(replace(each, component="", line="") for each in plan.stages)))


class DecodedPlan(NamedTuple):
    """A plan, its form, and for each stage the string numbers of its `component` and its `line`."""

    plan: PipelinePlan
    form: _Form
    texts: Sequence[Sequence[int]]

    def is_like(self, other: DecodedPlan) -> bool:
        """Whether the plan equals *other*, which may be of another chunk, in all but addresses."""
        is_same = self.form.line == other.form.line or self.form.key == other.form.key
        return is_same and self.texts == other.texts


def decoded_plans(
    tables: Mapping[str, Array], lines: Sequence[bytes], text_of: Callable[[int], str]
) -> list[DecodedPlan]:
    """Returns the plans of a chunk: its *tables*, and the *lines* of its forms.

    *text_of* returns the string of a number. Raises KbError for a line that is no plan, and ValueError for rows of
    `stages` that belong to no plan.
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
    """Raises ValueError if *rows* of the table *name* are left."""
    if next(rows, None) is not None:
        raise ValueError(f"rows of {name} that belong to nothing")


_MISFITS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""The errors that decoding a forged chunk raises, for example where a number points to a row that does not exist."""
_NEEDS: Final = "a log as it was written"
_FORMS: Final = RECORDS, WAITS, DISPATCHES, TRANSFERS
_PENDING: Final = -1
_MOST_CHUNK_RECORDS: Final = 1 << 20
_MOST_UNORDERED: Final = 1 << 24
"""The most rows that are sorted by time, where rows that an earlier chunk left come first. Source: assumed; 640 MB."""

_ROWS_AT_ONCE: Final = 1 << 9
"""Rows of `commands` that become Python lists at a time. Source: assumed; the garbage collector starts at 700
objects."""


@contextmanager
def read_as_written(where: str) -> Iterator[None]:
    """Turns any error of decoding into a LogError that begins with *where*: no CompressedWriter made such a chunk."""
    try:
        yield
    except KbError as error:
        if str(error).startswith(where):
            raise
        raise LogError(where, f"a chunk that says: {error}", _NEEDS) from None
    except _MISFITS as error:
        raise LogError(where, f"compressed rows that do not fit together ({repr(error)[:120]})", _NEEDS) from None


class _Slots(Struct, frozen=True):
    base: int
    nbytes: int
    count: int
    first: int

    @property
    def can_be(self) -> bool:
        """Whether the slots lie within a memory."""
        is_positive = self.base >= 0 and self.nbytes >= 0 and self.count >= 1 and 0 <= self.first < 1 << OFFSET_BITS
        return is_positive and self.base + self.count * self.nbytes <= 1 << OFFSET_BITS


class _Placement(NamedTuple):
    input: _Slots | None
    panel: _Slots | None
    output: _Slots | None
    registers: _Slots | None
    accumulators: _Slots | None
    moved: Mapping[Place, Mapping[int, int]]

    def extends(self, known: _Placement) -> bool:
        """Whether the placement has all slots and moved pieces of *known*, and perhaps more."""
        are_slots_same = all(then is None or then == now for then, now in zip(known[:-1], self[:-1], strict=True))
        pieces = [(pieces, self.moved.get(place, {})) for place, pieces in known.moved.items()]
        return are_slots_same and all(then.items() <= now.items() for then, now in pieces)


class DecodedChunk(NamedTuple):
    """A decoded chunk.

    `before_ps`: the rows of the chunk came before this time. `pending`: the rows that belong to no isolated command.
    `isolated`: the isolated commands that have rows left, by first op; None for a command that an earlier chunk
    described. `tables`: all tables of the chunk.
    """

    before_ps: int
    pending: CompressedTables
    isolated: dict[int, IsolatedRows | None]
    tables: dict[str, Array]


class DecodedCommands:
    """Decodes the chunks of a `CompressedWriter`, one after the other. *strings* are the strings of the log.

    A chunk describes its new commands, and again each earlier command that was not done. It has compressed rows, which
    later chunks may refer to by number, and names the isolated commands that have rows left, by first op. `commands`
    has all commands by first op, until the caller calls `finish` for them. `places` is known from the first chunk on.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._number_of = {text: number for number, text in enumerate(strings)}
        self.commands: dict[int, LoggedCommand] = {}
        self._begun: dict[int, tuple[DecodedPlan, _Placement]] = {}
        self._finished = -1
        self.places: Places | None = None
        self._tables: dict[int, CompressedTables] = {}

    def read(self, data: bytes, where: str, rest: Sequence[Table]) -> DecodedChunk:
        """Decodes the chunk *data*. *rest* are rows of each kind that earlier chunks left.

        Raises LogError, which begins with *where*, for bytes that are no chunk. Call `read` within `read_as_written`,
        which turns the other errors of a forged chunk into LogError.
        """
        tables, forms = unpack_chunk(data, where)
        ((before_ps, chunk_records),) = ints(tables["chunk"]).tolist()
        if self.places is None:
            self.places = self._places(tables["pes"], chunk_records)
        self._add_commands(tables, decoded_plans(tables, forms, self._text))
        pending = self._add_compressed(tables, rest)
        return DecodedChunk(before_ps, pending, self._isolated(tables), tables)

    def intern(self, text: str) -> int:
        """Returns the number of *text*. Raises KeyError for a text that is no string of the log."""
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
        """Keeps *command*. Raises ValueError if an earlier chunk has another command there.

        The rows of such a command would depend on the chunk that they are in.
        """
        first_op = command.first_op
        known = self.commands.get(first_op)
        # A command behind the finished ones is new. One before them may only continue.
        is_new = known is None and first_op > self._finished
        if not is_new and (known is None or not self._continues(command, known, plan, placement)):
            raise ValueError(f"a command of op {first_op} that differs from the one in an earlier chunk")
        self.commands[first_op] = command
        if command.t_done_ps < 0:
            self._begun[first_op] = plan, placement

    def _continues(self, now: LoggedCommand, known: LoggedCommand, plan: DecodedPlan, placement: _Placement) -> bool:
        """Whether *now* is the command *known*, which was not done, with the same or more slots and times."""
        if known.t_done_ps >= 0 or (known.submitted, known.addresses) != (now.submitted, now.addresses):
            return False
        known_plan, known_placement = self._begun.pop(now.first_op)
        return plan.is_like(known_plan) and placement.extends(known_placement)

    def finish(self, commands: Iterable[CommandLike]) -> None:
        """Forgets the first *commands*, whose rows are written."""
        for each in commands:
            del self.commands[each.first_op]
            self._finished = each.first_op

    def _add_compressed(self, tables: dict[str, Array], rest: Sequence[Table]) -> CompressedTables:
        """Keeps the compressed rows of the chunk. Returns the rows that belong to no isolated command."""
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
            tables_of_number = self._tables[number] = CompressedTables(*map(CompressedRows, _FORMS, kinds))
            for rows in tables_of_number:
                _check(rows, _MOST_UNORDERED if number == _PENDING else 0)
        return self._tables.pop(_PENDING)

    def _isolated(self, tables: dict[str, Array]) -> dict[int, IsolatedRows | None]:
        memories, found = iter(ints(tables["memories"])[:, 0].tolist()), dict[int, IsolatedRows | None]()
        for first_op, begin_ps, end_ps, number, n_memories in ints(tables["closed"]).tolist():
            mine = [next(memories) for _ in range(n_memories)]
            found[first_op] = IsolatedRows(self._tables[number], mine, (begin_ps, end_ps)) if number >= 0 else None
        check_all_taken("memories", memories)
        return found


def _within(value: int, bits: int) -> int:
    """Returns *value*. Raises ValueError if it is negative or has more than *bits* bits."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{value} where {bits} bits have room")
    return value


def _addresses(rows: Table) -> Iterator[int]:
    """The addresses with the owners and offsets *rows*. Raises ValueError for an address outside all memories."""
    owners, offsets = rows.T
    for column, bits in ((owners, ADDRESS_BITS - OFFSET_BITS), (offsets, OFFSET_BITS)):
        for value in (column.min(initial=0), column.max(initial=0)):
            _within(int(value), bits)
    return map(join_address, owners.tolist(), offsets.tolist())


def _each(rows: Table) -> Iterator[list[int]]:
    """Each of *rows* as a list. Few lists exist at a time, because the garbage collector visits each of them."""
    for begin in range(0, len(rows), _ROWS_AT_ONCE):
        yield from rows[begin : begin + _ROWS_AT_ONCE].tolist()


def _check(rows: CompressedRows, most_unordered: int) -> None:
    """Raises ValueError for more than *most_unordered* rows that are not in order of time, and for times over 64 bits.

    So a forged number of repetitions takes no memory: ordered rows are made as the time advances.
    """
    if rows.last_ps >= 1 << 63:
        raise ValueError("a time beyond 64 bits")
    if rows.n_rows > most_unordered and not rows.is_in_order:
        raise ValueError("rows in another order than that of their times")
