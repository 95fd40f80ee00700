"""Lines and tables of `kb compare` and `kb whatif`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from kb_cli.compare.comparison import RunComparison
from kb_cli.compare.configuration import ConfigurationChange
from kb_cli.compare.op_changes import OpChange
from kb_cli.report.elements.op_cells import MOST_OPS
from kb_cli.run.base.model_text import rate_text
from kb_cli.terminal.cause_words import via_text
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import duration, signed_percent, value_text

if TYPE_CHECKING:
    from kb_cli.whatif.whatif import WhatIf

MOST_ROWS = 12
"""The most rows of a table, and differences of a part of the configuration; the JSON has all."""

MOST_BLOCKS = 4
"""The most blocks of a PE's own view; the JSON has all."""


def whatif_lines(found: WhatIf) -> Iterator[str]:
    """Yields the values that were set, and their gain at best and as measured."""
    for each in found.set:
        yield f"{each.path}: {_text(each.before, each.before is not None)} -> {_text(each.after)}"
    if found.bound_ps is not None:
        tiles = " with the tiles of the run" if found.comparison.tiles else ""
        change = _signed(found.bound_ps - found.before_ps, found.before_ps)
        yield f"at best   {duration(found.bound_ps)} ({change}){tiles}"
    yield f"measured  {duration(found.latency_ps)} ({_signed(found.latency_ps - found.before_ps, found.before_ps)})"
    yield ""


def comparison_parts(found: RunComparison) -> Iterator[Any]:
    """Yields configuration, latency, sentences, then the tables of blocks, rows and PEs."""
    if found.same and found.configuration:
        yield "The digests of the two logs are equal: the differences changed no operation and no time."
    elif found.same:
        yield "The same run: the digests of the two logs are equal."
    if found.configuration:
        yield "What is different:"
        yield from _configuration_lines(found.configuration)
    before, after = found.latency_ps
    yield f"latency {duration(before)} -> {duration(after)} ({_signed(found.change_ps, before)})"
    yield from _whole_lines(found)
    if not found.same:
        yield from found.missing
    yield from found.sentences
    if found.ops:
        yield ""
        yield from _op_parts(found.ops)
    if found.blocks:
        yield ""
        yield _block_table(found)
    if found.rows:
        yield ""
        yield _row_table(found)
        if len(found.rows) > MOST_ROWS:
            rest = sum(each.change_ps for each in found.rows[MOST_ROWS:])
            yield f"and {len(found.rows) - MOST_ROWS} more rows, together {_change(rest)}; --json has all"
    if len(found.pes) > 1:
        yield ""
        yield _pe_table(found)
        if len(found.pes) > MOST_ROWS:
            pes = sum(len(each.pes) for each in found.pes[MOST_ROWS:])
            yield f"and {pes} more PEs with {len(found.pes) - MOST_ROWS} other changes; --json has all"


def _whole_lines(found: RunComparison) -> Iterator[str]:
    """Yields the times from call to answer if they are others than those of the kernels, and those of models."""
    if found.whole_ps is not None and found.whole_ps != found.latency_ps:
        old, new = found.whole_ps
        yield f"from call to answer {duration(old)} -> {duration(new)} ({_signed(new - old, old)})"
    if found.model is not None:
        old, new = found.model.total_ps
        rates = (rate_text(*each) for each in zip(found.model.items_per_s, found.model.unit, strict=True))
        yield f"the model {duration(old)} -> {duration(new)} ({_signed(new - old, old)}), {' -> '.join(rates)}"


def _configuration_lines(changes: list[ConfigurationChange]) -> Iterator[str]:
    for part, group in groupby(changes, key=lambda each: each.part):
        found = list(group)
        yield from (f"  {_difference(each)}" for each in found[:MOST_ROWS])
        if len(found) > MOST_ROWS:
            yield f"  and {len(found) - MOST_ROWS} more values of {part}; --json has all"


def _difference(each: ConfigurationChange) -> str:
    """Returns the words for a difference, with the place in the first run, and the place in the second run if it
    differs.
    """
    place = f"{each.part} {each.place}".rstrip()
    if each.moved:
        return f"{place}: stands at {each.place_after} now"
    if each.place_after != each.place:
        place = f"{place}, now {each.place_after}"
    before, after = (_text(*value) for value in zip((each.before, each.after), each.stated, strict=True))
    return f"{place}: {before} -> {after}"


_OP_HEADERS: Final = ("op", "before", "after", "change", "launches", "x", "in the model", "most of it")


def _op_parts(ops: list[OpChange]) -> Iterator[Any]:
    """Yields the table of ops, those that changed most in the model if there are many, and a line on the others."""
    dear = sorted(ops, key=lambda op: -abs(op.model_change_ps))[:MOST_OPS]
    names = {op.name for op in dear}
    table = new_table(*_OP_HEADERS, left=1, text=_OP_HEADERS[-1:])
    for op in (each for each in ops if each.name in names):
        old, new = op.latency_ps
        change = "new" if old is None else "gone" if new is None else _signed(op.change_ps, old)
        numbers = (_pair(op.launches), _pair(op.repeats), _change(op.model_change_ps))
        table.add_row(op.name, _time(old), _time(new), change, *numbers, _top(op))
    yield table
    if len(ops) > MOST_OPS:
        rest = sum(op.model_change_ps for op in ops if op.name not in names)
        yield f"and {len(ops) - MOST_OPS} more ops, together {_change(rest)} in the model; --json has all"


def _top(op: OpChange) -> str:
    """Returns the block whose time on the path of *op* changed most, with the change."""
    return "-" if op.top is None else f"{op.top.block} {_change(op.top.path_change_ps)}"


def _time(ps: int | None) -> str:
    return "-" if ps is None else duration(ps)


def _pair(counts: tuple[int | None, int | None]) -> str:
    """Returns two counts, one where they are equal: `1`, `1 -> 2`."""
    texts = ["-" if each is None else str(each) for each in counts]
    return texts[0] if texts[0] == texts[1] else " -> ".join(texts)


def _block_table(found: RunComparison) -> Any:
    table = new_table("block", "busy before", "after", "on the path before", "after", "change", left=1)
    for each in found.blocks:
        times = (*each.busy_ps, *each.path_ps)
        table.add_row(each.block, *map(duration, times), _change(each.path_change_ps))
    return table


def _row_table(found: RunComparison) -> Any:
    table = new_table("line", "block", "what", "held up by", "before", "after", "change", left=4)
    for each in found.rows[:MOST_ROWS]:
        lines = each.line or "none"
        if each.line_after != each.line:
            lines = f"{lines} -> {each.line_after or 'none'}"
        times = (duration(each.before_ps), duration(each.after_ps), _change(each.change_ps))
        table.add_row(lines, each.block, each.what, via_text(each.via), *times)
    return table


def _pe_table(found: RunComparison) -> Any:
    table = new_table("PEs", "first", "change in its own view", left=3)
    for each in found.pes[:MOST_ROWS]:
        largest = islice(each.change_ps.items(), MOST_BLOCKS)
        changes = ", ".join(f"{block} {_change(ps)}" for block, ps in largest)
        rest = len(each.change_ps) - MOST_BLOCKS
        table.add_row(str(len(each.pes)), each.pes[0], f"{changes}, {rest} more" if rest > 0 else changes)
    return table


def _change(ps: int) -> str:
    return f"{'+' if ps > 0 else ''}{duration(ps)}"


def _signed(change: int, before: int) -> str:
    """Returns *change* as a share of *before*; the change itself where *before* is 0."""
    return _change(change) if change and not before else signed_percent(change / (before or 1))


def _text(value: object, stated: bool = True) -> str:
    text = value_text(value) if stated else "not stated"
    return f'"{text}"' if " -> " in text else text
