"""Issuing costs the same for every command."""

import pytest

from kb_components.pe.pe_cpu import PeCpu, PeCpuSpec
from kb_engine.block import Context
from kb_engine.timing import Clock
from kb_messages import DType, GemmCommand, LoadCommand, Matrix

MATRIX = Matrix.packed(4, 4, DType.F16)


@pytest.mark.parametrize(("issue_ns", "expected_ps"), [(0, 0), (3, 3000), (0.3, 300), (1.0001, 1001)])
@pytest.mark.parametrize("command", [LoadCommand(src=MATRIX, dst=MATRIX), GemmCommand(a=MATRIX, b=MATRIX, out=MATRIX)])
def test_every_command_costs_issue_ns(command, issue_ns, expected_ps):
    block = PeCpu(PeCpuSpec(issue_ns=issue_ns), Context("pe0.pe_cpu", Clock(), None, 0))
    assert block.issue_ps(command) == expected_ps


def test_commands_reach_the_scheduler_one_issue_time_apart(simulate):
    from kb_messages import CommandSubmitted

    def kernel(tl, a, b, c):
        for _ in range(3):
            tl.composite("gemm", a, b, out=c)

    run = simulate(kernel, (16, 16, "f16"), (16, 16, "f16"), (16, 16, "f16"))
    assert [event.t_ps for event in run.traced(CommandSubmitted)] == [3000, 6000, 9000]
