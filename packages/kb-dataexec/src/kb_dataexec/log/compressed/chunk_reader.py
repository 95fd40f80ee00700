"""CompressedReader: makes all rows of a log from its chunks of compressed rows.

RecordCounter counts the records alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kb_dataexec.log.compressed.chunk_format import ENDING, KINDS, ints, part_sizes, unpack_chunk
from kb_dataexec.log.compressed.compressed_rows import CompressedTables, Table
from kb_dataexec.log.compressed.decoded_commands import DecodedCommands, read_as_written
from kb_dataexec.log.compressed.expected_rows import RowSource
from kb_dataexec.log.compressed.record_tables import command_table
from kb_dataexec.log.compressed.row_maker import Chunk, RowMaker, n_finished
from kb_dataexec.log.tables import LeftOut
from kb_messages import OPTIONAL_TABLES, LogError

_MOST_LEFT: Final = 1 << 20
"""The most rows that a chunk may leave for the next one. Source: assumed; 40 MB. Chunks of kb_engine leave none."""


class CompressedReader:
    """Makes rows from the chunks of a `CompressedWriter`, one chunk after the other. *strings* are the log's strings.

    A row that came at `before_ps` of its chunk or later is written with the next chunk.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._decoded = DecodedCommands(strings)
        self._rest: list[Table] = []
        self._maker: RowMaker | None = None

    def read(self, data: bytes, where: str, is_left_out: LeftOut | None = None) -> Iterator[Chunk]:
        """Yields the rows of the chunk *data*, about as many at a time as a chunk of the run had.

        Chunks of rows for which *is_left_out* returns True are not made.

        Raises LogError, which begins with *where*, for bytes that no CompressedWriter made.
        """
        with read_as_written(where):
            yield from self._chunks(data, where, is_left_out)

    def _chunks(self, data: bytes, where: str, is_left_out: LeftOut | None) -> Iterator[Chunk]:
        decoded = self._decoded
        before_ps, pending, isolated, tables = decoded.read(data, where, self._rest)
        assert decoded.places is not None, "a chunk was read"
        maker = self._maker = self._maker or RowMaker(decoded.places, decoded.intern)
        for first_op, rows in isolated.items():
            if rows is not None:
                maker.expected.add(first_op, rows)
        for first_op in [each for each in maker.expected.first_ops if each not in isolated]:
            maker.expected.drop(first_op)
        commands = [decoded.commands[first_op] for first_op in sorted(decoded.commands)]
        finished = commands[: n_finished(commands, before_ps)]
        ending = {
            name: tables[stored]
            for name, stored in ENDING.items()
            if len(tables[stored]) or name not in OPTIONAL_TABLES
        }
        ending["commands"] = command_table(finished, decoded.intern)
        decoded.finish(finished)
        source = RowSource(CompressedTables(*[rows.in_order() for rows in pending]))
        yield from maker.chunks(source, commands, before_ps, ending, is_left_out)
        if source.n_left > _MOST_LEFT:
            raise ValueError(f"{source.n_left} rows that come later than the chunk")
        self._rest = source.rest()

    def check_end(self, where: str, ends_in_rows: bool) -> None:
        """Raises LogError, which begins with *where*, if rows of a closed log are left after its last chunk.

        With *ends_in_rows*, the rows of isolated commands may stand in later chunks of plain rows.
        """
        n_left = sum(map(len, self._rest))
        n_isolated = 0 if ends_in_rows or self._maker is None else len(self._maker.expected.isolated)
        if n_left or n_isolated:
            got = (
                f"compressed rows that come after the last chunk ({n_left} of no command, and of {n_isolated} commands)"
            )
            raise LogError(where, got, "a `before_ps` in the last chunk that is later than all rows")


_RECORDS = KINDS.index("records")
_PENDING = -1


class _Begun(NamedTuple):
    """An isolated command of `n_records` records that runs from `begin_ps` to `end_ps`."""

    begin_ps: int
    end_ps: int
    n_records: int

    def n_from(self, since_ps: int) -> int:
        """About how many of the records came at *since_ps* or later, if they are spread evenly over the time."""
        left_ps = self.end_ps - max(since_ps, self.begin_ps)
        return self.n_records * left_ps // max(1, self.end_ps - self.begin_ps) if left_ps >= 0 else 0


class RecordCounter:
    """Counts the records of a log from its chunks of compressed rows, without making a record.

    Chunks are added in their order. `total` is the number of records so far. An error ends isolated commands early; the
    records of such a command are estimated.
    """

    def __init__(self) -> None:
        self.total = 0
        self._of_tables: dict[int, int] = {}
        self._begun: dict[int, _Begun] = {}
        self._before_ps = 0

    def add(self, data: bytes, where: str) -> None:
        """Adds the chunk *data*. Raises LogError, which begins with *where*, for bytes that are no chunk."""
        tables, _ = unpack_chunk(data, where, ("commands", "addresses"))
        with read_as_written(where):
            sizes = part_sizes(tables)
        n_records = {number: sum(each) for (number, kind), each in sizes.items() if kind == _RECORDS}
        self.total += n_records.pop(_PENDING, 0)
        self._of_tables |= n_records
        isolated = ints(tables["closed"]).tolist()
        self._end_all_but({first_op for first_op, *_ in isolated})
        for first_op, begin_ps, end_ps, number, _ in isolated:
            if number >= 0:
                begun = self._begun[first_op] = _Begun(begin_ps, end_ps, self._of_tables.get(number, 0))
                self.total += begun.n_records
        self._before_ps = int(tables["chunk"]["before_ps"].max(initial=0))

    def _end_all_but(self, left: set[int]) -> None:
        for first_op in self._begun.keys() - left:
            self.total -= self._begun.pop(first_op).n_from(self._before_ps)
