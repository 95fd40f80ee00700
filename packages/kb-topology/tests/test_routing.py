from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_messages import TopologyError
from kb_topology import FORWARDING, Graph, Interior, Link, Node, NodeKind, Router, Search, exact, load_topology
from kb_topology.routes import routing
from kb_topology.routes.search_back import SearchBack


def graph_of(kinds: str, *edges: tuple[int, int, int]) -> Graph:
    """Node `n<i>` forwards where *kinds* has an `x` and is a memory where it has an `m`; edges are (src, dst, ps)."""
    nodes = [
        Node(
            id=f"n{i}",
            kind=NodeKind.XBAR if kind == "x" else NodeKind.HBM,
            impl="a.b",
            attrs={},
            memory=None,
            sip=0,
            cube=0,
            pe=None,
            index=None,
            yaml_path=(),
        )
        for i, kind in enumerate(kinds)
    ]
    links = [Link(src=f"n{a}", dst=f"n{b}", bw_gbs=exact(1), length_mm=exact(1), latency_ps=ps) for a, b, ps in edges]
    return Graph({node.id: node for node in nodes}, tuple(links), ())


def path(router: Router, src: int, dst: int) -> str:
    return "".join(node_id[1:] for node_id in router.route(f"n{src}", f"n{dst}").nodes)


def test_the_path_of_least_latency_is_taken_even_with_more_hops():
    # 0-1-3: 50 ps, 0-2-4-3: 10 + 10 + 10 = 30 ps
    router = Router(graph_of("mxxmx", (0, 1, 20), (1, 3, 30), (0, 2, 10), (2, 4, 10), (4, 3, 10)))
    assert path(router, 0, 3) == "0243"


def test_forwarding_nodes_cost_what_they_are_said_to():
    # 0-1-3: 50 + 9 ps, 0-2-4-3: 30 + 2 x 15 ps
    graph = graph_of("mxxmx", (0, 1, 20), (1, 3, 30), (0, 2, 10), (2, 4, 10), (4, 3, 10))
    costs = {"n1": 9, "n2": 15, "n4": 15}
    assert path(Router(graph, lambda node: costs[node.id]), 0, 3) == "013"


def test_ends_cost_nothing_even_if_they_forward():
    graph = graph_of("xxx", (0, 1, 1), (1, 2, 1))
    asked = []
    Router(graph, lambda node: asked.append(node.id) or 0).route("n0", "n1")
    assert "n0" not in asked


def test_of_equal_latency_the_path_of_fewer_hops_is_taken():
    router = Router(graph_of("mxxmx", (0, 2, 10), (2, 3, 20), (0, 1, 10), (1, 4, 10), (4, 3, 10)))
    assert path(router, 0, 3) == "023"


def test_of_equal_hops_the_path_whose_nodes_were_built_first_is_taken():
    # 0-2-3-5 and 0-1-4-5 cost the same; 1 was built before 2, though 3 was before 4
    edges = [(0, 2, 10), (2, 3, 10), (3, 5, 10), (0, 1, 10), (1, 4, 10), (4, 5, 10)]
    assert path(Router(graph_of("mxxxxm", *edges)), 0, 5) == "0145"
    assert path(Router(graph_of("mxxxxm", *reversed(edges))), 0, 5) == "0145"


def test_a_route_does_not_pass_through_a_memory():
    router = Router(graph_of("mmxm", (0, 1, 1), (1, 3, 1), (0, 2, 50), (2, 3, 50)))
    assert path(router, 0, 3) == "023"


def test_a_route_has_the_links_between_its_nodes(small):
    route = Router(small().graph).route("sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm3")
    assert [node_id.removeprefix("sip0.cube0.") for node_id in route.nodes] == [
        "pe0.pe_dma",
        "xbar0",
        "bridge",
        "xbar1",
        "hbm3",
    ]
    assert [(link.src, link.dst) for link in route.links] == list(pairwise(route.nodes))
    # 2 mm x 7 = 14; 2.5 mm x 7 = 17.5, rounded up; 3 mm x 7 = 21
    assert [link.latency_ps for link in route.links] == [14, 18, 18, 21]


def test_a_node_reaches_itself_without_a_link():
    route = Router(graph_of("m")).route("n0", "n0")
    assert (route.nodes, route.links) == (("n0",), ())


def test_no_path_names_both_ends_and_what_is_reached(small):
    with pytest.raises(TopologyError) as caught:
        Router(small().graph).route("sip0.cube0.hbm0", "sip0.cube0.pe1.pe_tcm")
    assert str(caught.value) == (
        "sip0.cube0.hbm0 -> sip0.cube0.pe1.pe_tcm: got no path, needs links through bridge, io_noc, noc, pcie_ep, "
        "serdes, switch, ucie, xbar; sip0.cube0.hbm0 reaches: sip0.cube0.hbm1, sip0.cube0.hbm2, sip0.cube0.hbm3, "
        "sip0.cube0.xbar0, sip0.cube0.xbar1, sip0.cube0.bridge, sip0.cube0.pe0.pe_dma, sip0.cube0.pe1.pe_dma "
        "and 2 more"
    )


@pytest.mark.parametrize("ends", [("n0", "zz"), ("zz", "n0"), ("zz", "zz")])
def test_an_end_that_is_no_node_is_refused(ends):
    with pytest.raises(TopologyError) as caught:
        Router(graph_of("m")).route(*ends)
    assert str(caught.value) == "node: got 'zz', needs the id of a node"


def test_a_negative_node_cost_is_refused():
    with pytest.raises(ValueError, match=r"^node_cost_ps\(n2\): got -1, needs at least 0$"):
        Router(graph_of("mxxxm", (0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1)), lambda _: -1).route("n0", "n4")


def test_a_route_is_searched_once_and_so_is_the_source_of_several():
    # memory 0 has links to 1 and 2, and memories 4 and 5 one from 3 each
    graph = graph_of("mxxxmm", (0, 1, 1), (0, 2, 2), (1, 3, 1), (2, 3, 1), (3, 4, 1), (3, 5, 1))
    asked = []
    router = Router(graph, lambda node: asked.append(node.id) or 0)
    assert router.route("n0", "n4") is router.route("n0", "n4")
    assert router.route("n0", "n5").nodes == ("n0", "n1", "n3", "n5")
    assert asked == ["n1", "n2", "n3"]


def test_routes_to_one_node_are_one_search_from_there(monkeypatch):
    # memories 0 to 4 have links to 5 and 6, and memory 8 has one from 7: routes from 1 on are searched from 7 backwards
    edges = [(memory, router, memory + router) for memory in range(5) for router in (5, 6)]
    graph = graph_of("mmmmmxxxm", *edges, (5, 7, 1), (6, 7, 1), (7, 8, 1))
    began = []
    for kind in (Search, SearchBack):
        monkeypatch.setattr(
            routing, kind.__name__, lambda interior, end, kind=kind: began.append((kind, end)) or kind(interior, end)
        )
    router = Router(graph)
    for memory in range(5):
        assert path(router, memory, 8) == f"{memory}578"
    assert began == [(Search, "n0"), (SearchBack, "n7")]


def best_by_exhaustion(graph: Graph, src: str, costs: dict[str, int]) -> dict[str, tuple[int, int, list[int]]]:
    """The rule of the module, over every path: least cost, then hops, then node order."""
    order = {node_id: index for index, node_id in enumerate(graph.nodes)}
    best: dict[str, tuple[int, int, list[int]]] = {}

    def extend(nodes: list[str], cost: int) -> None:
        here = nodes[-1]
        label = (cost, len(nodes), [order[node_id] for node_id in nodes])
        best[here] = min(best.get(here, label), label)
        passes = here == src or graph.nodes[here].kind in FORWARDING
        own = costs[here] if here != src else 0
        for link in graph.out_links(here) if passes else ():
            if link.dst not in nodes:
                extend([*nodes, link.dst], cost + own + link.latency_ps)

    extend([src], 0)
    return best


@given(st.data())
@settings(max_examples=examples(200))
def test_routes_are_those_of_an_exhaustive_search(data):
    kinds = data.draw(st.text("xxm", min_size=2, max_size=6))
    ends = st.tuples(*[st.integers(0, len(kinds) - 1)] * 2).filter(lambda pair: pair[0] != pair[1])
    joined = data.draw(st.lists(ends, unique=True, max_size=16))
    graph = graph_of(kinds, *((a, b, data.draw(st.integers(0, 2))) for a, b in joined))
    costs = {node_id: data.draw(st.integers(0, 2)) for node_id in graph.nodes}
    router = Router(graph, lambda node: costs[node.id])
    best = best_by_exhaustion(graph, "n0", costs)
    assert set(router.reachable("n0")) == set(best) - {"n0"}
    for dst, (_, _, nodes) in best.items():
        assert router.route("n0", dst).nodes == tuple(f"n{i}" for i in nodes)


def best_by_relaxation(graph: Graph, src: str, costs: dict[str, int]) -> dict[str, tuple[int, int, tuple[int, ...]]]:
    """The same rule for larger graphs: extend what is known by every link until nothing gets better."""
    order = {node_id: index for index, node_id in enumerate(graph.nodes)}
    best: dict[str, tuple[int, int, tuple[int, ...]]] = {src: (0, 0, (order[src],))}
    improved = True
    while improved:
        improved = False
        for link in graph.links:
            if link.src in best and (link.src == src or graph.nodes[link.src].kind in FORWARDING):
                cost, hops, nodes = best[link.src]
                own = costs[link.src] if link.src != src else 0
                label = (cost + own + link.latency_ps, hops + 1, (*nodes, order[link.dst]))
                if link.dst not in best or label < best[link.dst]:
                    best[link.dst] = label
                    improved = True
    return best


@given(st.data())
@settings(max_examples=examples(60))
def test_routes_asked_for_in_any_order_are_those_of_plain_relaxation(data):
    kinds = data.draw(st.text("xxm", min_size=2, max_size=30))
    number = st.integers(0, len(kinds) - 1)
    ends = st.tuples(number, number).filter(lambda pair: pair[0] != pair[1])
    joined = data.draw(st.lists(ends, unique=True, max_size=90))
    graph = graph_of(kinds, *((a, b, (a * 7 + b) % 3) for a, b in joined))
    costs = {node_id: index % 2 for index, node_id in enumerate(graph.nodes)}
    router = Router(graph, lambda node: costs[node.id])
    best = best_by_relaxation(graph, "n0", costs)
    for dst in data.draw(st.permutations(sorted(best))):
        assert router.route("n0", dst).nodes == tuple(f"n{i}" for i in best[dst][2])
    assert set(router.reachable("n0")) == set(best) - {"n0"}


@given(st.data())
@settings(max_examples=examples(100))
def test_searches_from_either_end_find_the_routes_of_plain_relaxation(data):
    kinds = data.draw(st.text("xxm", min_size=2, max_size=20))
    number = st.integers(0, len(kinds) - 1)
    joined = data.draw(st.lists(st.tuples(number, number).filter(lambda pair: pair[0] != pair[1]), max_size=60))
    graph = graph_of(kinds, *((a, b, (a * 7 + b) % 3) for a, b in dict.fromkeys(joined)))
    costs = {node_id: index % 2 for index, node_id in enumerate(graph.nodes)}
    router, interior = (make(graph, lambda node: costs[node.id]) for make in (Router, Interior))
    best = {src: best_by_relaxation(graph, src, costs) for src in graph.nodes}
    searches = {dst: SearchBack(interior, dst) for dst in graph.nodes}
    ends = st.tuples(st.sampled_from(sorted(best)), st.sampled_from(sorted(best)))
    for src, dst in data.draw(st.lists(ends, min_size=1, max_size=40)):
        if dst in best[src]:
            nodes = tuple(f"n{i}" for i in best[src][dst][2])
            assert router.route(src, dst).nodes == searches[dst].route_from(src).nodes == nodes
        else:
            assert searches[dst].route_from(src) is None
            with pytest.raises(TopologyError):
                router.route(src, dst)


def test_in_a_mesh_of_cubes_routes_are_those_of_plain_relaxation():
    graph = load_topology(Path(__file__).parents[3] / "topologies" / "one_sip.yaml").graph
    costs = {node.id: int(1000 * node.attrs.get("overhead_ns", 0)) for node in graph.nodes.values()}
    ids = list(graph.nodes)
    for src in ("sip0.cube0.pe0.pe_dma", "sip0.cube6.hbm5", "sip0.io0.io_cpu", "sip0.cube9.noc3", "host"):
        router = Router(graph, lambda node: costs[node.id])
        best = best_by_relaxation(graph, src, costs)
        assert len(best) == 852  # of 1492 nodes; 5 in each of the 128 PEs have no link
        backwards = Interior(graph, lambda node: costs[node.id])
        for number, (dst, (_, _, nodes)) in enumerate(best.items()):
            assert router.route(src, dst).nodes == tuple(ids[i] for i in nodes)
            if number % 20 == 0:
                assert SearchBack(backwards, dst).route_from(src) == router.route(src, dst)


def test_a_search_goes_no_further_than_it_must():
    # 0 - 1 - 2 and 0 - 1 - 3 - ... - 9: the way to 2 is decided once 1 is, and that to 9 once 8 is
    edges = [(0, 1, 1), (0, 3, 99), (1, 2, 1), (1, 3, 5), *((i, i + 1, 5) for i in range(3, 9))]
    graph = graph_of("mxmxxxxxxx", *edges)
    asked = []
    router = Router(graph, lambda node: asked.append(node.id) or 0)
    router.route("n0", "n2")
    assert asked == []  # no link from 0 is shorter than that to 1, and 2 has one link, from 1
    router.route("n0", "n9")
    assert asked == ["n1", "n3", "n4", "n5", "n6", "n7", "n8"]


def test_a_search_back_goes_no_further_than_it_must():
    # 0 - 1 - 3 and 2 - 4 - 5 - 6 - 1 - 3: the way from 0 is decided once 1 is
    graph = graph_of("mxmmxxx", (0, 1, 1), (1, 3, 1), (2, 4, 5), (4, 5, 5), (5, 6, 5), (6, 1, 5))
    asked = []
    search = SearchBack(Interior(graph, lambda node: asked.append(node.id) or 0), "n3")
    assert search.route_from("n0").nodes == ("n0", "n1", "n3")
    assert asked == ["n1"]
    assert search.route_from("n2").nodes == ("n2", "n4", "n5", "n6", "n1", "n3")
    assert asked == ["n1", "n6", "n5", "n4"]
