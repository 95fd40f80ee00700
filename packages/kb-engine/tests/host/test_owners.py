import pytest

from kb_engine.host.host import owning_cubes
from kb_messages import CubeTarget, KernelError

TWO = (("toy\n", "toy\nsips: 2\ncubes_per_sip: 2\n"), ("pe_layout: {count: 1}", "pe_layout: {count: 2}"))
"""Two SIPs of two cubes of two PEs."""


def targets(*wanted):
    return [CubeTarget(sip=sip, cube=cube) for sip, cube in wanted]


def test_a_cube_owns_a_tensor_when_a_part_of_it_is_in_its_memories(toy_host):
    host = toy_host(*TWO)
    a, b = (host.empty(name, (4, 4), "f16", slices=[number]) for name, number in (("a", 3), ("b", 1)))
    topology = host.engine.topology
    assert owning_cubes(topology, [a.ref]) == targets((1, 1))
    assert owning_cubes(topology, [7, [a.ref, (b.ref[0:2],)]]) == targets((0, 1), (1, 1))
    assert owning_cubes(topology, ["a"]) == []


def test_pes_and_targets_are_one_of_the_two(toy_host):
    with pytest.raises(KernelError) as caught:
        toy_host().launch(lambda tl: None, pes=[0], targets=targets((0, 0)))
    assert str(caught.value) == "launch: got pes and targets, needs one of the two"


def test_all_is_every_pe_whatever_the_arguments_say(toy_host):
    host = toy_host(*TWO)
    a = host.empty("a", (4, 4), "f16", slices=[0])
    assert len(host.launch(lambda tl, a: None, a).pe_start_ps) == 2
    assert len(host.launch(lambda tl, a: None, a, pes="all").pe_start_ps) == 8
