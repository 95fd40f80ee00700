"""Tables of `kb run BENCH --params`."""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType

from kb_cli.benchmark.param_docs import BenchmarkDoc, ParamDoc
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import value_text


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
