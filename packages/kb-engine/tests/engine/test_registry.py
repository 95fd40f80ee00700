from importlib.metadata import EntryPoint

import engine_toys
import pytest

from kb_engine.engine.registry import GROUP, Registry
from kb_messages import TopologyError


class Distribution:
    version = "1.2"

    def __init__(self, name):
        self.name = name


def point(name, value, distribution=None):
    made = EntryPoint(name, value, GROUP)
    return made._for(Distribution(distribution)) if distribution else made


def node_of(toy_chip, impl):
    """pe_gemm's node with another impl; it stands at line 14, and its impl at column 32."""
    topology = toy_chip(("impl: toy.gemm}", f"impl: {impl}}}"))
    return topology.graph.nodes["sip0.cube0.pe0.pe_gemm"], topology.source


def refusal(toy_chip, points, impl):
    node, source = node_of(toy_chip, impl)
    with pytest.raises(TopologyError) as caught:
        Registry(points).component_type(node, source)
    return str(caught.value)


PLACE = "toy.yaml:14:32: $.cube.pe_template.nodes.pe_gemm.impl: "


def test_a_name_leads_to_its_class(toy_chip, toy_points):
    node, source = node_of(toy_chip, "toy.gemm")
    assert Registry(toy_points).component_type(node, source) is engine_toys.Gemm


def test_names_are_sorted(toy_points):
    registry = Registry(toy_points[::-1])
    assert registry.names == sorted(point.name for point in toy_points)


def test_versions_are_those_of_the_distributions_that_register_names():
    points = [point("b.gemm", "engine_toys:Gemm", "b"), point("b.math", "engine_toys:Gemm", "b")]
    points += [point("a.math", "engine_toys:Gemm", "a"), point("local", "engine_toys:Gemm")]
    registry = Registry(points)
    assert list(registry.versions(["b.gemm", "a.math", "b.math", "local", "nobody's"]).items()) == [
        ("a", "1.2"), ("b", "1.2")
    ]  # fmt: skip
    assert registry.versions(["local"]) == {}


def test_two_distributions_with_one_name_are_both_named():
    points = [point("toy.gemm", "engine_toys:Gemm", "first"), point("toy.gemm", "engine_toys:SlowGemm", "second-one")]
    with pytest.raises(TopologyError) as caught:
        Registry(points)
    assert str(caught.value) == (
        "component toy.gemm: got two registrations, first (engine_toys:Gemm) and second-one (engine_toys:SlowGemm), "
        "needs one; uninstall one of them or rename its entry point"
    )


def test_one_registration_seen_twice_is_one():
    twice = [point("toy.gemm", "engine_toys:Gemm", "first")] * 2
    assert Registry(twice).names == ["toy.gemm"]


def test_names_of_built_in_blocks_are_theirs_alone():
    Registry([point("builtin.pe_gemm", "kb_components.pe.pe_gemm:PeGemm", "kb-components")])
    with pytest.raises(TopologyError) as caught:
        Registry([point("builtin.pe_lut", "engine_toys:Gemm", "third")])
    assert str(caught.value) == (
        "component builtin.pe_lut: got a block of third (engine_toys:Gemm), needs a built-in one behind `builtin.`; "
        "rename its entry point, to the name of its own package, for example"
    )


def test_an_unknown_name_is_refused_with_the_nearest_one(toy_chip, toy_points):
    assert refusal(toy_chip, toy_points, "toy.gem") == (
        f"{PLACE}got 'toy.gem', needs the name of an installed component; did you mean 'toy.gemm'?"
    )


def test_a_name_like_no_other_is_refused_with_all_there_are(toy_chip):
    points = [point("toy.gemm", "engine_toys:Gemm"), point("toy.dma", "engine_toys:Dma")]
    assert refusal(toy_chip, points, "xyz") == (
        f"{PLACE}got 'xyz', needs the name of an installed component; installed are toy.dma, toy.gemm"
    )
    assert refusal(toy_chip, [], "xyz") == (
        f"{PLACE}got 'xyz', needs the name of an installed component; installed are none"
    )


def test_a_component_that_fails_to_load_says_where_from_and_why(toy_chip):
    assert refusal(toy_chip, [point("a.b", "no_such_module:Block", "third-party")], "a.b") == (
        f"{PLACE}got a.b, which fails to load from third-party (no_such_module:Block) "
        """(ModuleNotFoundError("No module named 'no_such_module'")), needs a component that loads"""
    )


def test_what_is_no_component_is_refused(toy_chip):
    assert refusal(toy_chip, [point("a.b", "engine_toys:MOVE_PS")], "a.b") == (
        f"{PLACE}got a.b from an unknown distribution (engine_toys:MOVE_PS), needs a subclass of ComponentBase"
    )


def test_attributes_are_checked_against_the_blocks_spec(toy_chip, toy_points):
    topology = toy_chip(("impl: toy.gemm}", "impl: toy.gemm, queue_depht: 2}"))
    with pytest.raises(TopologyError) as caught:
        Registry(toy_points).spec(topology.graph.nodes["sip0.cube0.pe0.pe_gemm"], topology.source)
    assert str(caught.value) == (
        "toy.yaml:14:48: $.cube.pe_template.nodes.pe_gemm.queue_depht: got an unknown key, needs one of "
        "queue_depth, kind, impl, count, memory; did you mean 'queue_depth'?"
    )


def test_attributes_become_the_spec(toy_chip, toy_points):
    topology = toy_chip(("impl: toy.gemm}", "impl: toy.gemm, queue_depth: 2}"))
    found = Registry(toy_points).spec(topology.graph.nodes["sip0.cube0.pe0.pe_gemm"], topology.source)
    assert found == (engine_toys.Gemm, engine_toys.QueueSpec(queue_depth=2))
