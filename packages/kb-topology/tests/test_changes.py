"""Changes of single values of a topology file: the text, and the errors word for word."""

import pytest

from kb_messages import TopologyError
from kb_topology import YamlSource, format_path, loads_topology, parse_path, read_yaml, value_at, with_values

TEXT = """\
# é: a comment stays
name: small  # and this one
wire_ps_per_mm: 7.0
cube:
  nodes:
    hbm: {kind: hbm, impl: x.y, count: 1, memory: {space: hbm, size: 2 GiB}, bw_gbs: 102.4}
    xbar:
      kind: xbar
      impl: x.z
      overhead_ns: 2
  links:
    - {from: "hbm[0]", to: "xbar", bw_gbs: 128, length_mm: 2}
"""
SOURCE = YamlSource("chip.yaml", TEXT)


def changed(path: str, value: str) -> str:
    return with_values(SOURCE, {parse_path(path): value}).text


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("$.cube.nodes.hbm.bw_gbs", "204.8", "bw_gbs: 102.4}", "bw_gbs: 204.8}"),
        ("$.cube.links[0].bw_gbs", "64", "bw_gbs: 128", "bw_gbs: 64"),
        ("$.cube.links[0].from", "'a, b: {'", '"hbm[0]"', '"a, b: {"'),
        ("$.wire_ps_per_mm", "  6.5 # slower ", "7.0", "6.5"),
        ("$.name", "no#é", "small", '"no#\\u00e9"'),
        ("$.name", '"7"', "small", '"7"'),
        ("$.cube.nodes.hbm.count", "~", "count: 1", "count: null"),
        ("$.cube.nodes.hbm.latency_ns", "45", "hbm: {kind", "hbm: {latency_ns: 45, kind"),
        ("$.cube.nodes.xbar.depth", "3", "      kind: xbar", "      depth: 3\n      kind: xbar"),
        ("$.sips", "2", "name: small", "sips: 2\nname: small"),
    ],
)
def test_one_value_changes_and_all_else_stays(path: str, value: str, old: str, new: str) -> None:
    assert changed(path, value) == TEXT.replace(old, new, 1)
    assert read_yaml(changed(path, value), "x") != read_yaml(TEXT, "x")


def test_several_values_of_lines_that_end_like_those_of_windows() -> None:
    source = YamlSource("chip.yaml", TEXT.replace("\n", "\r\n"))
    values = {("cube", "nodes", "hbm", "bw_gbs"): "1.5", ("name",): "b", ("cube", "nodes", "xbar", "n"): "4"}
    found = with_values(source, values)
    assert [value_at(found, path) for path in values] == [1.5, "b", 4]
    assert read_yaml(found.text, "x")["cube"]["links"] == read_yaml(TEXT, "x")["cube"]["links"]
    assert value_at(found, ("cube", "links", 3, "from")) is None


def test_a_place_is_read_as_it_is_written() -> None:
    for path in (("cube", "links", 2, "from"), ("a b",), ("x", 0, "y-z"), ("macs_per_cell", "f16")):
        assert parse_path(format_path(path)) == path


@pytest.mark.parametrize("text", ["cube.nodes", "$", "$.", "$.a..b", "$.a[-1]", "$.a]", "", "$.a=3"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(TopologyError) as error:
        parse_path(text)
    needs = "one like $.cube.nodes.hbm.bw_gbs or $.cube.links[0]"
    assert str(error.value) == f"{text}: got no place in a topology, needs {needs}"


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "$.cube.nodes.hbn.bw_gbs",
            "3",
            (
                "chip.yaml:5:3: $.cube.nodes.hbn: got a place that the file does not have, needs one that it has; "
                "did you mean '$.cube.nodes.hbm'?"
            ),
        ),
        (
            "$.cube.links[1].bw_gbs",
            "3",
            (
                "chip.yaml:11:3: $.cube.links[1]: got a place that the file does not have, needs one that it has; "
                "did you mean '$.cube.links[0]'?"
            ),
        ),
        (
            "$.cube.nodes.hbm.bw_gbs.x",
            "3",
            (
                "chip.yaml:6:78: $.cube.nodes.hbm.bw_gbs.x: got a place that the file does not have, needs one that it "
                "has; did you mean '$.cube.nodes.hbm.bw_gbs'?"
            ),
        ),
        (
            "$.cube.nodes",
            "3",
            (
                "chip.yaml:5:3: $.cube.nodes: got more than one value there, needs the place of a single value; name "
                "one of its values, such as $.cube.nodes.hbm.kind"
            ),
        ),
        (
            "$.name",
            "{a: 3}",
            "$.name: got '{a: 3}', needs a single value: a number, a text, true, false or null",
        ),
        ("$.name", "!!int 3", "$.name: got '!!int 3', needs a single value: a number, a text, true, false or null"),
        ("$.name", "", "$.name: got '', needs a single value: a number, a text, true, false or null"),
        ("$.name", ".inf", "$.name: got the number .inf, needs a finite one"),
    ],
)
def test_what_cannot_be_changed(path: str, value: str, sentence: str) -> None:
    with pytest.raises(TopologyError) as error:
        changed(path, value)
    assert str(error.value) == sentence


def test_the_topology_says_what_it_thinks_of_a_new_value() -> None:
    source = with_values(SOURCE, {("cube", "links", 0, "bw_gbs"): "fast"})
    with pytest.raises(TopologyError) as error:
        loads_topology(source.text, source.path)
    assert str(error.value) == "chip.yaml:12:36: $.cube.links[0].bw_gbs: got 'fast', needs a number"


def test_a_value_of_bytes_that_are_no_utf8_is_refused() -> None:
    with pytest.raises(TopologyError) as caught:
        changed("$.cube.nodes.hbm.bw_gbs", "\udcff")
    assert str(caught.value) == (
        "$.cube.nodes.hbm.bw_gbs: got '\\udcff', needs a single value: a number, a text, true, false or null"
    )
