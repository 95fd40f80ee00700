import pytest

from kb_engine.launch.targets import pes_of, targets_of
from kb_messages import CubeTarget, KernelError

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


def test_without_a_host_absent_targets_are_refused_too(toy_host):
    host = toy_host(*TWO)
    with pytest.raises(KernelError) as caught:
        host.launch(lambda tl: None, targets=targets((0, 0), (3, 0)))
    assert str(caught.value) == "launch: got a target sip3.cube0, needs PEs from sip0.cube0.pe0 to sip1.cube1.pe1"


@pytest.mark.parametrize(
    ("pes", "fix"), [(0, "; write `pes=(0,)`"), ("0", ""), ((0.0,), ""), ((True,), ""), (None, "")], ids=str
)
def test_pes_of_a_target_that_are_no_list_are_refused(graph, pes, fix):
    with pytest.raises(KernelError) as caught:
        pes_of(graph, targets((0, 1, pes)))
    assert str(caught.value) == (
        f"launch: got pes={pes!r} as the target in sip0.cube1, needs 'all' or a tuple of PE numbers{fix}"
    )


def test_an_engine_refuses_one_number_as_the_pes_of_a_target(toy_engine, tmp_path):
    with pytest.raises(KernelError, match=r"launch: got pes=0 as the target"):
        toy_engine().launch(lambda tl: None, [], ["sip0.cube0.pe0"], tmp_path, targets((0, 0, 0)))


def test_one_number_as_the_pes_of_a_launch_is_refused(toy_host):
    with pytest.raises(KernelError) as caught:
        toy_host().launch(lambda tl: None, pes=0)
    assert str(caught.value) == "launch: got pes=0, needs a list of PE numbers; write `pes=[0]`"


@pytest.mark.parametrize("given", [1, "all", [(0, 0)], {"sip": 0}], ids=str)
def test_what_is_no_list_of_targets_is_refused(graph, given):
    with pytest.raises(KernelError) as caught:
        pes_of(graph, given)
    needs = "needs a list of CubeTarget(sip=..., cube=..., pes=...)"
    assert str(caught.value) == f"launch: got targets={given!r}, {needs}"
