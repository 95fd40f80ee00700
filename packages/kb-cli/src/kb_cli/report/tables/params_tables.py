"""Tables of `kb run BENCH --params`, and of `kb run WORKLOAD --list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UnsetType

from kb_cli.benchmark.param_docs import BenchmarkDoc, ParamDoc
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import quantity, value_text
from kb_engine import PlannedOp


def params_tables(doc: BenchmarkDoc) -> list[Any]:
    """Returns the benchmark in its author's words, and a table with a row for each parameter."""
    has_docs = any(each.doc for each in doc.parameters)
    table = new_table("parameter", "type", "default", *(["meaning"] if has_docs else []), wrapped=(1, 3))
    for each in doc.parameters:
        table.add_row(each.name, each.type, _default(each), *([each.doc] if has_docs else []))
    texts = [text for text in (doc.doc, doc.params_doc) if text]
    return [doc.benchmark, "", *(line for text in texts for line in (text, "")), table]


def _default(doc: ParamDoc) -> str:
    if isinstance(doc.default, UnsetType):
        return "has to be given"
    return value_text(doc.default)


def plan_tables(title: str, ops: Sequence[PlannedOp]) -> list[Any]:
    """Returns the *title*, a row for each op, and the sums over the run and over the whole model."""
    table = new_table("op", "kind", "result", "layout", "FLOPs", "bytes", "in the model", left=4)
    for op in ops:
        shapes = [f"{'x'.join(map(str, each.shape))} {each.dtype}" for each in op.writes]
        layouts = [each.layout for each in op.writes]
        sizes = quantity(op.flops, "FLOP"), quantity(op.nbytes, "B")
        table.add_row(op.name, op.kind, ", ".join(shapes), _joined(layouts), *sizes, f"{op.repeats} x")
    return [title, "", table, "", *_sums(ops)]


def _joined(layouts: Sequence[str]) -> str:
    return layouts[0] if len(set(layouts)) == 1 else ", ".join(layouts)


def _sums(ops: Sequence[PlannedOp]) -> list[str]:
    run, model = sum(op.flops for op in ops), sum(op.flops * op.repeats for op in ops)
    nbytes = sum(op.nbytes for op in ops), sum(op.nbytes * op.repeats for op in ops)
    return [
        f"the run: {_ops(len(ops))}, {quantity(run, 'FLOP')}, {quantity(nbytes[0], 'B')}",
        f"the model: {_ops(sum(op.repeats for op in ops))}, {quantity(model, 'FLOP')}, {quantity(nbytes[1], 'B')}",
    ]


def _ops(count: int) -> str:
    return f"{count} op{'s' if count != 1 else ''}"
