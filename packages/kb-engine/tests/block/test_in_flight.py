"""What a command refers to."""

from weakref import ref

from kb_engine.block.in_flight import CommandInFlight
from kb_messages import (
    BufferNeeds,
    DType,
    LoadCommand,
    Matrix,
    PipelinePlan,
    StageTemplate,
    StageType,
    SubmittedCommand,
    When,
)


class Waiter:
    """Waits for a command."""

    is_awaited = True

    def done(self, command):
        """Hears of the end."""


def test_a_command_that_is_done_refers_to_nobody_who_waited_for_it():
    matrix = Matrix(address=0, rows=1, cols=1, stride=2, dtype=DType.F16)
    submitted = SubmittedCommand(command_seq=0, pe="pe", line="k.py:1", command=LoadCommand(src=matrix, dst=matrix))
    stage = StageTemplate(stage_type=StageType.DMA_READ, component="dma", when=When.EVERY_TILE, operands=())
    buffers = BufferNeeds(input_nbytes=0, output_nbytes=0, register_nbytes=0)
    plan = PipelinePlan(kind="load", grid=(1, 1, 1), stages=(stage,), buffers=buffers)
    waiter = Waiter()
    command, known = CommandInFlight(submitted, plan, 0, waiter.done, completion=waiter), ref(waiter)
    assert command.is_awaited
    command.end(7)
    del waiter
    assert known() is None
    assert command.t_done_ps == 7
    assert not command.is_awaited
