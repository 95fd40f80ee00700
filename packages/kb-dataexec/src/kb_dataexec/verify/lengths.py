"""sum_lengths: the number of terms of the longest sum behind an output, by the ops that lead to the output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.analysis.dependencies import Dependencies, DependencyKind, dependencies
from kb_dataexec.log.tables import OpLog
from kb_dataexec.verify.sum_graph import Rule, SumGraph, sum_graph
from kb_dataexec.verify.sums import sum_length, sums_of
from kb_messages import Rectangle


def sum_lengths(log: OpLog, outputs: Sequence[Sequence[Rectangle]]) -> list[int]:
    """Returns, for each of *outputs*, given by its rectangles, the terms of the longest sum behind it, at least 1.

    A value has terms of its own, and inherits the longest sum behind its operands. Sums that are added or subtracted
    have the terms of both, so a loop `acc += dot(a, b)` counts all of its products. A product with a number or a value,
    and an op that only moves or chooses elements, has as many terms as its longest operand. The result of another
    function, of a matrix product or of a `sum` inherits the terms of its arguments; the result of another function is
    one term. The output counts the larger of its own and its inherited terms. Ops are followed through the bytes that
    they exchange. Raises LogError for an invalid log.
    """
    if sum_length(log) == 1:
        return [1] * len(outputs)
    sums = sums_of(log, across_commands=False)
    graph = sum_graph(log, sums, outputs)
    terms = _longest(graph, dependencies(graph.touched), int(sums.terms.sum()))
    return terms[len(terms) - len(outputs) :] if outputs else []


def _longest(graph: SumGraph, found: Dependencies, most: int) -> list[int]:
    """The terms of each op, the larger of own and inherited ones. No value has more than *most*, all sums together."""
    reads = (found.kind & (DependencyKind.RAW | DependencyKind.EXPLICIT)) != 0
    first, producer = np.append(0, np.cumsum(reads))[found.first].tolist(), found.producer[reads].tolist()
    terms, inherited = list[int](), list[int]()
    apart, rules = (1, 1), graph.rule.tolist()
    for index, (rule, own) in enumerate(zip(rules, graph.own.tolist(), strict=True)):
        behind = producer[first[index] : first[index + 1]]
        longest = max([terms[each] for each in behind], default=1)
        before = max([inherited[each] for each in behind], default=1)
        if rule == Rule.APART:
            apart = longest, before
        elif rule == Rule.ADD:
            long = [each for each in (*(terms[each] for each in behind), apart[0]) if each > 1]
            longest, before = max(1, sum(long)), max(before, apart[1])
        elif rule == Rule.PRODUCT:
            sums = [terms[each] for each in behind if terms[each] > 1 or rules[each] == Rule.PRODUCT]
            longest, before = own + sum(sums), max(before, *apart)
        elif rule in (Rule.BEND, Rule.SUM):
            longest, before = max(1, own), max(before, longest)
        if rule != Rule.APART:
            apart = 1, 1
        terms.append(min(longest, most))
        inherited.append(min(before, most))
    return list(map(max, terms, inherited))
