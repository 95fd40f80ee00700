import pytest

from kb_engine.block.control_roles import split_message
from kb_messages import CubeTarget, KernelLaunch, MmuUnmap


def targets(*wanted):
    return tuple(CubeTarget(sip=each[0], cube=each[1], pes=(*each[2:], "all")[0]) for each in wanted)


def test_a_launch_is_cut_by_sip_and_by_cube():
    launch = KernelLaunch(launch=0, targets=targets((1, 0), (0, 1), (1, 1, (0,))), target_start_ps=9)
    parts = split_message(launch, lambda cube: cube[0], lambda _: pytest.fail("launches say it themselves"))
    assert [(sip, part.targets, part.target_start_ps) for sip, part in parts] == [
        (1, targets((1, 0), (1, 1, (0,))), 9),
        (0, targets((0, 1)), 9),
    ]


def test_a_message_for_mmus_is_cut_by_where_its_pes_are():
    message = MmuUnmap(virtual=0, nbytes=4096, pes=("a", "b", "c"))
    parts = split_message(message, lambda cube: cube, {"a": (0, 1), "b": (0, 0), "c": (0, 1)}.__getitem__)
    assert [(cube, part.pes) for cube, part in parts] == [((0, 1), ("a", "c")), ((0, 0), ("b",))]
