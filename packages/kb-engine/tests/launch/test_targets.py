import pytest

from kb_engine.launch.targets import owning_cubes, pes_of, split, targets_of
from kb_messages import CubeTarget, KernelError, KernelLaunch, MmuUnmap

TWO = (("toy\n", "toy\nsips: 2\ncubes_per_sip: 2\n"), ("pe_layout: {count: 1}", "pe_layout: {count: 2}"))
"""Two SIPs of two cubes of two PEs."""


@pytest.fixture(scope="module")
def graph(toy_chip):
    return toy_chip(*TWO).graph


def targets(*wanted):
    return tuple(CubeTarget(sip=each[0], cube=each[1], pes=(*each[2:], "all")[0]) for each in wanted)


def test_whole_cubes_are_one_target_and_parts_name_their_pes(graph):
    ids = ["sip1.cube0.pe1", "sip0.cube1.pe1", "sip0.cube1.pe0"]
    assert targets_of(graph, ids) == targets((1, 0, (1,)), (0, 1))


def test_targets_name_the_pes_that_are_there_in_order(graph):
    assert pes_of(graph, targets((1, 1), (0, 0, (1, 5)), (7, 0))) == [
        "sip1.cube1.pe0",
        "sip1.cube1.pe1",
        "sip0.cube0.pe1",
    ]


def test_a_pe_that_two_targets_name_is_refused(graph):
    with pytest.raises(KernelError) as caught:
        pes_of(graph, targets((0, 0, (1,)), (0, 0, (1,))))
    assert str(caught.value) == "launch: got sip0.cube0.pe1 twice, needs each PE at most once"


def test_a_launch_is_cut_by_sip_and_by_cube():
    launch = KernelLaunch(launch=0, targets=targets((1, 0), (0, 1), (1, 1, (0,))), target_start_ps=9)
    parts = split(launch, lambda cube: cube[0], lambda _: pytest.fail("launches say it themselves"))
    assert [(sip, part.targets, part.target_start_ps) for sip, part in parts] == [
        (1, targets((1, 0), (1, 1, (0,))), 9),
        (0, targets((0, 1)), 9),
    ]


def test_a_message_for_mmus_is_cut_by_where_its_pes_are():
    message = MmuUnmap(virtual=0, nbytes=4096, pes=("a", "b", "c"))
    parts = split(message, lambda cube: cube, {"a": (0, 1), "b": (0, 0), "c": (0, 1)}.__getitem__)
    assert [(cube, part.pes) for cube, part in parts] == [((0, 1), ("a", "c")), ((0, 0), ("b",))]


def test_a_cube_owns_a_tensor_when_a_part_of_it_is_in_its_memories(toy_host):
    host = toy_host(*TWO)
    a, b = (host.empty(name, (4, 4), "f16", slices=[number]) for name, number in (("a", 3), ("b", 1)))
    topology = host.engine.topology
    assert owning_cubes(topology, [a.ref]) == list(targets((1, 1)))
    assert owning_cubes(topology, [7, [a.ref, (b.ref[0:2],)]]) == list(targets((0, 1), (1, 1)))
    assert owning_cubes(topology, ["a"]) == []


def test_without_a_host_absent_targets_are_refused_too(toy_host):
    host = toy_host(*TWO)
    with pytest.raises(KernelError) as caught:
        host.launch(lambda tl: None, targets=targets((0, 0), (3, 0)))
    assert str(caught.value) == "launch: got a target sip3.cube0, needs PEs from sip0.cube0.pe0 to sip1.cube1.pe1"


def test_pes_and_targets_are_one_of_the_two(toy_host):
    with pytest.raises(KernelError) as caught:
        toy_host().launch(lambda tl: None, pes=[0], targets=targets((0, 0)))
    assert str(caught.value) == "launch: got pes and targets, needs one of the two"


def test_all_is_every_pe_whatever_the_arguments_say(toy_host):
    host = toy_host(*TWO)
    a = host.empty("a", (4, 4), "f16", slices=[0])
    assert len(host.launch(lambda tl, a: None, a).pe_start_ps) == 2
    assert len(host.launch(lambda tl, a: None, a, pes="all").pe_start_ps) == 8
