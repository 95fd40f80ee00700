"""LastAxisReductions: reductions along the last axis, where the vector unit is faster along the first one."""

from __future__ import annotations

from collections import defaultdict

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.rule import Rule
from kb_cli.run.rules.run_facts import RunFacts
from kb_cli.run.rules.work.op_sums import OpSum, OpSums
from kb_cli.run.rules.work.path_time import PathTime
from kb_cli.run.rules.work.unit_costs import MATH_ROLES, math_attributes, service_ps
from kb_cli.terminal.units import duration
from kb_dataexec import OpLog
from kb_engine import Host
from kb_messages import MathParams, Role


class LastAxisReductions(Rule):
    """Finds reductions of rows that cost more than reductions of columns of the same elements.

    A vector unit adds groups of lanes to each other in a cycle, but needs a tree over the lanes at the end of each row.
    So it reduces a transposed block along the first axis faster, if the block has enough rows to fill the lanes.

    The gain of a line is the part of its math on the critical path that goes: the cost of each reduction less the
    cost of the transposed one, by the unit's own pure cost, over all math of the line. All other math of a block costs
    the same for the transposed block. The run does not become shorter than the service of the busiest other block.
    """

    def __init__(self) -> None:
        self._sums = OpSums("math", MATH_ROLES)

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._sums.look(chunk)

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy of the flaw, or None for a run without the flaw."""
        math_ps: dict[str, int] = defaultdict(int)
        saved_ps: dict[str, int] = defaultdict(int)
        worst: tuple[int, OpSum, int] | None = None
        for op in self._sums:
            math_ps[op.line] += op.took_ps
            along_first_ps = _along_first_ps(op, facts.host)
            less_ps = 0 if along_first_ps is None else op.took_ps - op.n_ops * along_first_ps
            if along_first_ps is not None and less_ps > 0:
                saved_ps[op.line] += less_ps
                if worst is None or less_ps > worst[0]:
                    worst = less_ps, op, along_first_ps
        if worst is None:
            return None
        path = PathTime(facts)
        math_on_path = path.by_line(lambda row: row.block == "pe_math")
        on_path = {line: math_on_path[line] * less_ps / math_ps[line] for line, less_ps in saved_ps.items()}
        _, op, along_first_ps = worst
        shape = op.shapes[Role.IN]
        return Remedy(
            rule="reductions along the last axis",
            part="pe_math",
            flaw=f"{math_attributes(op).op} along the last axis of {shape.rows} x {shape.cols} elements takes "
            f"{duration(op.took_ps // op.n_ops)}, and along the first axis {duration(along_first_ps)}",
            change=f"keep each block transposed and in one piece, as {shape.cols} x {shape.rows}, "
            "and reduce along axis 0",
            gain=path.gain(sum(on_path.values()), path.busiest_ps(["pe_math"])),
            basis="estimated",
            line=max(on_path, key=lambda line: on_path[line]),
        )


def _along_first_ps(op: OpSum, host: Host) -> int | None:
    """Picoseconds of the reduction *op* of the transposed block; None if *op* is no reduction along the last axis, or
    nothing is known.
    """
    attributes, shape, out = math_attributes(op), op.shapes.get(Role.IN), op.shapes.get(Role.OUT)
    if attributes.axis != 1 or shape is None or out is None or out.cols != 1 or shape.cols == 1:
        return None
    params = MathParams(op=attributes.op, rows=shape.cols, cols=shape.rows, dtype=out.dtype, axis=0)
    return service_ps(host, op.component, params)
