from functools import partial

import pytest

from kb_messages import TopologyError
from kb_topology import NodeKind
from kb_topology.chip.endpoints import Ends, expand, pairs
from kb_topology.chip.spec import NodeTemplate
from kb_topology.chip.templates import Level

FAIL = partial(TopologyError, "here")
ONE = NodeTemplate(kind=NodeKind.NOC, impl="x.y")
FOUR = NodeTemplate(kind=NodeKind.HBM, impl="x.y", count=4)
SCOPE = Level(
    name="cube",
    noun="cube",
    yaml_path=("cube",),
    nodes={"noc": ONE, "hbm": FOUR},
    parts=(Level(name="pe", noun="PE", yaml_path=("pe",), count=3, nodes={"dma": ONE, "port": FOUR}),),
)


@pytest.mark.parametrize(
    ("text", "names", "many"),
    [
        ("noc", ["noc"], False),
        ("hbm[2]", ["hbm2"], False),
        ("hbm[1:3]", ["hbm1", "hbm2"], True),
        ("hbm[1:2]", ["hbm1"], True),
        ("hbm[*]", ["hbm0", "hbm1", "hbm2", "hbm3"], True),
        ("pe[1].dma", ["pe1.dma"], False),
        ("pe[*].dma", ["pe0.dma", "pe1.dma", "pe2.dma"], True),
        ("pe[0:2].port[0:2]", ["pe0.port0", "pe0.port1", "pe1.port0", "pe1.port1"], True),
    ],
)
def test_an_endpoint_names_its_nodes_in_order(text, names, many):
    assert expand(text, SCOPE, FAIL) == Ends(tuple(names), many)


NAMES = "noc, hbm, pe[...].dma, pe[...].port"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nok", f"got the unknown node 'nok', needs one of {NAMES}; did you mean 'noc'?"),
        ("pe[0].dmma", f"got the unknown node 'dmma', needs one of {NAMES}; did you mean 'dma'?"),
        ("dma", f"got 'dma', needs one of {NAMES}; write pe[*].dma"),
        ("pe[0].noc", f"got 'noc', needs one of {NAMES}; write noc"),
        ("hbm", "got hbm, needs an index, as there are 4; write hbm[0] or hbm[*]"),
        ("hbm[4]", "got hbm[4], needs indices from 0 to 3"),
        ("hbm[2:5]", "got hbm[2:5], needs indices from 0 to 3"),
        ("pe[3].dma", "got pe[3], needs indices from 0 to 2"),
        ("hbm[2:2]", "got hbm[2:2], which is empty, needs a first index below the last, as in hbm[0:4]"),
        ("noc[0]", "got noc[0], needs noc without an index; or give noc a count"),
        (
            "hbm[-1]",
            "got 'hbm[-1]', needs an endpoint (name, name[i], name[i:j] or name[*], after pe[...]. for a node of a PE)",
        ),
    ],
)
def test_an_endpoint_that_names_nothing_says_what_there_is(text, said):
    with pytest.raises(TopologyError) as caught:
        expand(text, SCOPE, FAIL)
    assert str(caught.value) == f"here: {said}"


def test_one_fans_out_and_ranges_pair():
    one, two = Ends(("a",), False), Ends(("x", "y"), True)
    assert list(pairs(one, two, FAIL)) == [("a", "x"), ("a", "y")]
    assert list(pairs(two, one, FAIL)) == [("x", "a"), ("y", "a")]
    assert list(pairs(two, Ends(("p", "q"), True), FAIL)) == [("x", "p"), ("y", "q")]


def test_ranges_of_unequal_length_are_refused_even_if_one_has_length_one():
    with pytest.raises(TopologyError) as caught:
        list(pairs(Ends(("a",), True), Ends(("x", "y"), True), FAIL))
    assert str(caught.value) == (
        "here: got a range of 1 nodes and one of 2, needs ranges of one length, or a single node on one side"
    )
