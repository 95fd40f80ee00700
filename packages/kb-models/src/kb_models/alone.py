"""One op of a workload alone: the ops that have to run for it, and the values that random numbers stand for."""

from __future__ import annotations

from collections.abc import Sequence

from kb_messages import BenchmarkError
from kb_models.layout import Value
from kb_models.layout.value import Content
from kb_models.ops import Op, normal
from kb_topology import did_you_mean, listing


def alone(ops: Sequence[Op], name: str, where: str) -> list[Op]:
    """The op called *name*, and before it the ops that make integers for it, such as the experts of each token:
    random integers would be no legal indices.

    Raises BenchmarkError for a name that no op has. *where* names the workload.
    """
    found = next((op for op in ops if op.name == name), None)
    if found is None:
        names = [op.name for op in ops]
        raise BenchmarkError(f"{where}: op {name!r}", "an unknown op", listing(names), did_you_mean(name, names))
    makers = {value.name: op for op in reversed(ops) for value in op.writes if not value.dtype.is_float}
    needed, todo = {found.name}, [found]
    while todo:
        for value in todo.pop().reads:
            maker = makers.get(value.name) if value.content is None else None
            if maker is not None and maker.name not in needed:
                needed.add(maker.name)
                todo.append(maker)
    return [op for op in ops if op.name in needed]


def stand_ins(ops: Sequence[Op]) -> dict[str, Content]:
    """Random normal content, by name, for each value that *ops* read and nothing writes before."""
    written: set[str] = set()
    found: dict[str, Content] = {}
    for op in ops:
        for value in op.reads:
            if value.content is None and value.name not in written:
                found[value.name] = normal(value.shape, 1.0, value.dtype)
        written |= {value.name for value in op.writes}
    return found


def layout_text(value: Value) -> str:
    """How *value* is split: the axis and the number of parts of each dimension that is split, and the copies."""
    axes = value.axes or ("",) * len(value.shape)
    split = []
    for dimension, axis in enumerate(axes):
        ways = len({part.bounds[dimension] for part in value.parts})
        if ways > 1:
            split.append(f"{axis or f'dimension {dimension}'}/{ways}")
    distinct = len({part.bounds for part in value.parts})
    copies = len(value.parts) // distinct
    return ", ".join([*split, *([f"{copies} copies"] if copies > 1 else [])]) or "whole"
