"""A plan that commands share is, at the addresses of each, the plan that the command has for itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from kb_components.pe import pe_scheduler
from kb_components.pe.scheduling.shared_plans import SharedPlans
from kb_messages import (
    DrainCommand,
    DType,
    Fill,
    GemmCommand,
    LoadCommand,
    LoopOrder,
    MathAttributes,
    Matrix,
    Piece,
    StoreCommand,
    SubmittedCommand,
    TileShape,
    VectorCommand,
    VectorOp,
    VectorProgram,
    VectorValue,
    join_address,
)
from kb_plans import TileRoom, generate_plan

ROOM = TileRoom(input_nbytes=1 << 16, output_nbytes=1 << 16, register_nbytes=1 << 12)
HBM, TCM, REG = 7, 8, 9
WIDE = VectorValue(8, 64, DType.F32)
ADD = VectorProgram(
    inputs=(WIDE, WIDE),
    ops=(VectorOp(math=MathAttributes(op="add"), arguments=(0, 1), result=WIDE),),
    outputs=(2,),
)
"""Its values, 2 KiB each, take two strips of the registers."""


def at(owner, offset, rows=8, cols=64, dtype=DType.F32, gap=0):
    return Matrix(
        address=join_address(owner, offset), rows=rows, cols=cols, stride=cols * dtype.nbytes + gap, dtype=dtype
    )


def find(plans, command):
    """The plan that *command* shares, and its addresses; None without one."""

    class UnknownError(Exception):
        pass

    def refuse(_):
        raise UnknownError

    try:
        return plans.find(submitted(command), refuse)
    except UnknownError:
        return None


def keep(plans, command, plan):
    assert plans.find(submitted(command), lambda _: plan) == (plan, None)


def submitted(command):
    return SubmittedCommand(command_seq=0, pe="pe0", line="kernel.py:1", command=command)


def load(one, two, three):
    return LoadCommand(src=at(HBM, one, gap=64), dst=at(TCM, two))


def masked(one, two, three):
    return LoadCommand(src=at(HBM, one, 3, 5), dst=at(TCM, two), fill=Fill(row=2, col=1, immediate=24))


def store(one, two, three):
    return StoreCommand(src=at(TCM, two), dst=at(HBM, one, gap=64))


def vector(one, two, three):
    return VectorCommand(program=ADD, inputs=(at(TCM, one), at(TCM, two)), outputs=(at(TCM, three),))


def gemm(one, two, three, **options):
    a, b, out = at(HBM, one, 16, 16), at(TCM, two, 16, 16), at(HBM, three, 16, 16)
    return GemmCommand(a=a, b=b, b_pinned=True, out=out, tile=TileShape(16, 16, 16), **options)


def added(one, two, three):
    return replace(gemm(one, two, three), acc=at(TCM, three, 16, 16), out=at(TCM, one, 16, 16), out_pinned=True)


def held(one, two, three):
    return replace(gemm(one, two, three), out=at(REG, 0, 16, 16), out_held=True)


def drain(one, two, three):
    return DrainCommand(src=at(REG, 0, 16, 16), dst=at(TCM, one, 16, 16))


def square(one, two, three):
    command = gemm(one, two, three)
    return replace(command, a=command.b, a_pinned=True)


def tiled(one, two, three, **options):
    """Three by two by two tiles, of which some are ragged."""
    a, b, out = at(HBM, one, 40, 24), at(HBM + 1, two, 24, 32), at(HBM, three, 40, 32)
    return GemmCommand(a=a, b=b, out=out, tile=TileShape(16, 16, 16), **options)


def turned(one, two, three):
    return replace(tiled(one, two, three, transpose_b=True), b=at(HBM + 1, two, 32, 24))


def in_panels(one, two, three):
    return tiled(one, two, three, loop_order=LoopOrder.WEIGHT_STATIONARY)


def streamed(one, two, three):
    return tiled(one, two, three, b_stream=True)


def in_place(one, two, three):
    return replace(tiled(one, two, three), a=at(HBM, three, 40, 24))


KINDS = (load, masked, store, vector, gemm, square, added, held, drain, tiled, turned, in_panels, streamed, in_place)
OFFSETS = st.permutations([4096 * number for number in range(8)])


@given(st.sampled_from(KINDS), OFFSETS, OFFSETS)
def test_commands_that_differ_in_addresses_share_a_plan(kind, first, second):
    plans = SharedPlans()
    one, other = kind(*first[:3]), kind(*second[:3])
    assert find(plans, one) is None
    plan = generate_plan(one, "pe0", ROOM)
    keep(plans, one, plan)
    for command in (one, other):
        shared, addresses = find(plans, command)
        expected = generate_plan(command, "pe0", ROOM)
        assert shared is plan
        assert shared.at(addresses) == expected
        assert list(shared.tiles_at(addresses)) == list(expected.tiles)


@pytest.mark.parametrize("changed", [
    lambda command: replace(command, src=at(HBM, 0, gap=128)),
    lambda command: replace(command, src=at(HBM + 1, 0, gap=64)),
    lambda command: replace(command, src=at(HBM, 0, 4, 128, gap=64), dst=at(TCM, 0, 4, 128)),
    lambda command: replace(command, src=at(HBM, 0, dtype=DType.I32, gap=64), dst=at(TCM, 0, dtype=DType.I32)),
    lambda command: StoreCommand(src=command.src, dst=command.dst),
    lambda command: replace(command, fill=Fill(row=0, col=0, immediate=0)),
])  # fmt: skip
def test_commands_that_differ_in_more_have_plans_of_their_own(changed):
    plans, command = SharedPlans(), load(0, 0, 0)
    keep(plans, command, generate_plan(command, "pe0", ROOM))
    assert find(plans, command) is not None
    assert find(plans, changed(command)) is None


def together(commands):
    """One command with an array in the place of each integer in which *commands* differ."""
    first = commands[0]
    if all(each == first for each in commands):
        return first
    if isinstance(first, Struct):
        names = first.__struct_fields__
        return type(first)(**{name: together([getattr(each, name) for each in commands]) for name in names})
    if isinstance(first, tuple):
        return tuple(together(each) for each in zip(*commands, strict=True))
    return np.array(commands)


@given(st.sampled_from(KINDS), st.lists(OFFSETS, min_size=2, max_size=5))
def test_a_plan_that_is_found_for_many_commands_at_once_is_that_of_each(kind, offsets):
    plans, commands = SharedPlans(), [kind(*each[:3]) for each in offsets]
    assert plans.find_for_all(commands[0], together(commands)) is None
    keep(plans, commands[0], generate_plan(commands[0], "pe0", ROOM))
    found = plans.find_for_all(commands[0], together(commands))
    if found is None:
        assert isinstance(commands[0], GemmCommand)  # which of its operands are one is part of the key
        return
    plan, columns = found
    for number, command in enumerate(commands):
        shared, addresses = find(plans, command)
        assert shared is plan
        assert tuple(each[number] if isinstance(each, np.ndarray) else each for each in columns) == addresses


@pytest.mark.parametrize("changed", [
    lambda command: replace(command, src=at(HBM + 1, 0, gap=64)),
    lambda command: replace(command, dst=at(TCM + 1, 0)),
])  # fmt: skip
def test_commands_of_which_one_is_in_another_memory_have_no_plan_for_all(changed):
    plans, command = SharedPlans(), load(0, 0, 0)
    keep(plans, command, generate_plan(command, "pe0", ROOM))
    assert plans.find_for_all(command, together([command, load(4096, 4096, 0)])) is not None
    assert plans.find_for_all(command, together([command, changed(command)])) is None
    assert plans.find_for_all(replace(command, src=at(HBM, 0)), together([command, load(4096, 4096, 0)])) is None


def test_no_plan_of_pieces_is_shared():
    plans, piece = SharedPlans(), Piece(join_address(HBM, 0), 256, join_address(TCM, 0), 256, 8, 64)
    command = replace(load(0, 0, 0), pieces=(piece,))
    keep(plans, command, generate_plan(command, "pe0", ROOM))
    assert len(plans) == 0


def test_products_of_one_value_and_of_two_differ():
    plans, one, two = SharedPlans(), square(0, 4096, 8192), replace(gemm(0, 4096, 8192), a=at(TCM, 0, 16, 16))
    keep(plans, one, generate_plan(one, "pe0", ROOM))
    assert find(plans, replace(two, a_pinned=True)) is None


def test_a_command_without_an_address_is_left_to_its_plan():
    plans, command = SharedPlans(), load(0, 0, 0)
    keep(plans, command, generate_plan(command, "pe0", ROOM))
    assert find(plans, replace(command, src=replace(command.src, address=float(command.src.address)))) is None


def test_plans_are_forgotten_when_they_are_many():
    plans = SharedPlans()
    for rows in range(1, 600):
        command = LoadCommand(src=at(HBM, 0, rows), dst=at(TCM, 0, rows))
        keep(plans, command, generate_plan(command, "pe0", ROOM))
        assert find(plans, command) is not None
    assert len(plans) < 520


def test_a_program_of_several_ops_is_planned_once_to_see_whether_it_fits_and_to_be_run(chip_host, monkeypatch):
    planned = []

    def plan(command, *arguments):
        planned.append(type(command))
        return generate_plan(command, *arguments)

    def kernel(tl, a):
        for row in range(3):
            x = tl.load(a[row : row + 1, :])
            tl.store(a[row + 3 : row + 4, :], tl.exp(x - tl.max(x, axis=1)))

    monkeypatch.setattr(pe_scheduler, "generate_plan", plan)
    host = chip_host()
    host.launch(kernel, host.tensor("a", np.ones((6, 8), np.float32), "f32"), pes=[0])
    assert planned == [LoadCommand, VectorCommand, StoreCommand]
