"""Commands of periods are the commands that they stand for, one by one and in the tables of a chunk."""

from types import SimpleNamespace

import numpy as np
import pytest

from kb_dataexec.log.compressed.chunk_format import COMMAND_TIMES
from kb_dataexec.log.compressed.chunk_writer import ChunkPlans, CommandRows
from kb_dataexec.log.compressed.command_periods import CommandPeriods, CommandShift, RepeatedCommand, each_command
from kb_dataexec.log.compressed.row_maker import n_finished
from kb_messages import Place

BY = CommandShift(ps=1000, ops=6, commands=2)
LARGE = 1 << 63
"""An address that 64 bits with a sign do not hold."""


class Slots(SimpleNamespace):
    """Four slots of 64 bytes, of which piece 0 takes number `first`."""

    base, nbytes, count = 256, 64, 4


class Places(SimpleNamespace):
    """The places of a command that has *registers* and `moved` pieces."""

    def __init__(self, registers=None, moved=None):
        super().__init__(input=None, panel=None, output=None, registers=registers, accumulators=None)
        self.moved = moved or {}


def command(first_op, seq, t_ps, placement, addresses, plan, t_fed_ps=None):
    times = {name: t_ps + at for at, name in enumerate(COMMAND_TIMES)}
    times["t_fed_ps"] = times["t_fed_ps"] if t_fed_ps is None else t_fed_ps
    causes = {"after_seq": seq - 1, "after": 1, "operand_seq": -1, "operand_ps": 7}
    issued = SimpleNamespace(command_seq=seq, pe=f"pe{seq % 2}", line="k.py:3")
    return SimpleNamespace(
        first_op=first_op,
        submitted=issued,
        shared_plan=plan,
        addresses=addresses,
        placement=placement,
        **times,
        **causes,
    )


@pytest.fixture
def plan():
    return SimpleNamespace(addresses=(5, LARGE), kind="load")


@pytest.fixture
def periods(plan):
    """Three periods of two commands: one whose registers turn, and one with a moved piece whose plan has addresses."""
    turns = [Places(Slots(first=first)) for first in (3, 0, 1)]
    first = command(10, 4, 500, Places(Slots(first=2)), (100, 200), plan)
    second = command(13, 5, 520, Places(moved={Place.OUTPUT_BUFFER: {2: 4096}}), None, plan, t_fed_ps=-1)
    repeated = RepeatedCommand(first, (np.array([116, 132, 148]), 200), turns)
    return CommandPeriods([repeated, RepeatedCommand(second, None, None)], 3, BY)


def test_each_command_is_later_by_whole_periods(periods):
    found = list(periods.commands())
    assert [each.first_op for each in found] == [16, 19, 22, 25, 28, 31]
    assert [each.submitted.command_seq for each in found] == [6, 7, 8, 9, 10, 11]
    assert [each.submitted.pe for each in found] == ["pe0", "pe1"] * 3
    assert [each.t_call_ps for each in found] == [1500, 1520, 2500, 2520, 3500, 3520]
    assert [each.after_seq for each in found] == [5, 6, 7, 8, 9, 10]
    assert [each.addresses for each in found[::2]] == [(116, 200), (132, 200), (148, 200)]
    assert [each.addresses for each in found[1::2]] == [(5, LARGE)] * 3
    assert [each.placement.registers.first for each in found[::2]] == [3, 0, 1]
    assert (periods.first_op, periods.t_done_ps) == (16, max(each.t_done_ps for each in found))


def test_what_is_not_known_stays_so_and_lengths_of_time_do_not_grow(periods):
    for each in periods.commands():
        assert (each.operand_seq, each.after, each.operand_ps) == (-1, 1, 7)
    assert {each.t_fed_ps for each in list(periods.commands())[1::2]} == {-1}


def test_a_chunk_has_the_rows_of_each_command(periods):
    """But for how plans are told, of which a chunk has one."""
    alone, together = ({}, {})
    before = command(10, 4, 500, Places(Slots(first=2)), (100, 200), periods.repeated[0].like.shared_plan)
    for some, tables in (([before, *periods.commands()], alone), ([before, periods], together)):
        plans = ChunkPlans(lambda text: len(text))
        plans.number_of = lambda plan: 0
        rows = CommandRows(lambda text: len(text), plans)
        rows.add(some)
        tables |= rows.tables
    assert {name: len(rows) for name, rows in together.items()} == {
        "commands": 7, "addresses": 14, "moved": 3, "slots": 4,
    }  # fmt: skip
    for name, rows in alone.items():
        np.testing.assert_array_equal(together[name], rows, name)


def test_commands_alone_and_in_periods_are_taken_one_by_one(periods):
    first = periods.repeated[0].like
    assert [each.first_op for each in each_command([first, periods])] == [10, 16, 19, 22, 25, 28, 31]


def test_periods_are_finished_when_their_last_command_is(periods):
    assert n_finished([periods], periods.t_done_ps) == 0
    assert n_finished([periods], periods.t_done_ps + 1) == 1
