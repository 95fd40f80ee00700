import os

import pytest

from kb_messages import TopologyError
from kb_topology import YamlSource, load_topology
from kb_topology.chip.limits import MAX_FILE_NBYTES
from kb_topology.chip.loader import load_spec, read_source


def message(call):
    with pytest.raises(TopologyError) as caught:
        call()
    return str(caught.value)


def test_a_file_that_cannot_be_read_is_named_as_the_user_gave_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes.yaml").write_bytes(b"ab\xff")
    needs = "needs a YAML file in UTF-8"
    assert message(lambda: read_source("./no.yaml")) == "./no.yaml: got no such file, needs a file"
    assert message(lambda: read_source("folder")) == "folder: got a folder, needs a regular file"
    assert message(lambda: read_source("bytes.yaml")) == (
        f"bytes.yaml: got the byte 0xff at offset 2, which is no UTF-8, {needs}; save the file as UTF-8"
    )
    assert message(lambda: read_source("folder/\0")).endswith(
        "got a file that cannot be opened (embedded null byte), needs a readable file"
    )


@pytest.mark.timeout(5)
def test_pipes_and_devices_are_no_topologies(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "device.yaml").symlink_to("/dev/zero")
    for kind in ("pipe", "device"):
        said = message(lambda: load_topology(tmp_path / f"{kind}.yaml"))  # noqa: B023 -- called at once
        assert said == f"{tmp_path / f'{kind}.yaml'}: got a {kind}, needs a regular file"


def test_a_file_that_would_take_minutes_to_read_is_refused_at_once(tmp_path):
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (MAX_FILE_NBYTES + 1))
    assert message(lambda: read_source(path)) == f"{path}: got {MAX_FILE_NBYTES + 1} bytes, needs at most 4194304"


@pytest.mark.parametrize("name", ["../x", "a/b", "a\\\\b", "a\\nb", "a\\Lb", "n" * 101])
def test_a_name_can_be_that_of_a_file_and_fits_one_line(name):
    text = f'name: "{name}"\nwire_ps_per_mm: 7\ncube: {{nodes: {{}}}}\n'
    said = message(lambda: load_spec(YamlSource("f.yaml", text)))
    assert said.startswith("f.yaml:1:1: $.name: got ")
    assert said.endswith("needs at most 100 printable characters without slashes")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_source(tmp_path / "f.yaml").text == "name: x\n"


@pytest.mark.parametrize(
    ("text", "got"), [("", "an empty file"), ("# x", "an empty file"), ("[1]", "a list of 1"), ("x", "'x'")]
)
def test_a_file_is_one_mapping(text, got):
    needs = "needs a mapping with name, wire_ps_per_mm and cube"
    assert message(lambda: load_spec(YamlSource("f.yaml", text))) == f"f.yaml:1:1: $: got {got}, {needs}"


def test_keys_of_a_node_that_are_not_reserved_are_its_components_attributes():
    node = "{kind: hbm, impl: a.b, count: 2, latency_ns: 45, attrs: {x: 1}}"
    spec = load_spec(YamlSource("f", f"name: x\nwire_ps_per_mm: 7\ncube: {{nodes: {{hbm: {node}}}}}\n"))
    assert spec.cube.nodes["hbm"].attrs == {"latency_ns": 45, "attrs": {"x": 1}}


@pytest.mark.parametrize("cube", ["3", "{nodes: 3}", "{nodes: {a: 3}}", "{nodes: {}, pe_template: {nodes: [1]}}"])
def test_a_wrong_shape_around_nodes_is_an_error_of_its_own(cube):
    text = f"name: x\nwire_ps_per_mm: 7\ncube: {cube}\n"
    assert "needs a mapping" in message(lambda: load_spec(YamlSource("f.yaml", text)))
