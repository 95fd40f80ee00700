import pytest

from kb_messages import TopologyError
from kb_topology.text.yaml_reader import format_path, read_marks, read_yaml

STRANGE = "found character that cannot start any token"


def test_a_document_becomes_dicts_lists_and_scalars():
    text = "a: {b: [1, 2.5, x], c: on}\nd: '1'\ne: |\n  one\n  two\n"
    assert read_yaml(text, "f") == {"a": {"b": [1, 2.5, "x"], "c": "on"}, "d": "1", "e": "one\ntwo\n"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a:\n  b: 1\n  c: 2\n  b: 3\n",
            "f.yaml:4:3: $.a.b: got a key that is already at 2:3, needs each key once; remove one",
        ),
        ("a: {1: x}", "f.yaml:1:5: $.a: got the key 1, needs a string; put it in quotes"),
        ("true: x", "f.yaml:1:1: $: got the key true, needs a string; put it in quotes"),
        ("[a]: x", "f.yaml:1:1: $: got a list or mapping as a key, needs a string"),
        ("a: &q 1\nb: *q", "f.yaml:2:4: $.b: got the alias *q, needs no aliases; write the value out"),
        ("a: &q [*q]", "f.yaml:1:8: $.a[0]: got the alias *q, needs no aliases; write the value out"),
        ("a: !!int 1", "f.yaml:1:4: $.a: got the tag tag:yaml.org,2002:int, needs a value without a tag"),
        ("a: .inf", "f.yaml:1:4: $.a: got the number .inf, needs a finite one"),
        (
            "a: 1\n---\nb: 2",
            "f.yaml:2:1: got a second document, needs one; remove the --- line and what follows it",
        ),
        (
            "a: [1, 2\nb: 3",
            "f.yaml:2:2: $.a[2]: got text that is not YAML (did not find expected ',' or ']'), needs valid YAML",
        ),
        ("a:\n\tb: 1", "f.yaml:2:1: $.a: got a tab, needs spaces in its place"),
        ("a:\n  b: 1\n \tc: 2", "f.yaml:3:2: $.a.b: got a tab, needs spaces in its place"),
        ("a: @b", f"f.yaml:1:4: $.a: got text that is not YAML ({STRANGE}), needs valid YAML"),
        ("a: x\nb: \x00", "f.yaml:2:4: got the character '\\x00', needs printable text"),
        ("a: \ud800", "f.yaml:1:4: got the character '\\ud800', needs printable text"),
        ('a: "\\e[31m"', "f.yaml:1:4: $.a: got the character '\\x1b', needs printable text"),
        ('a: {"\\u202e": 1}', "f.yaml:1:5: $.a: got the character '\\u202e', needs printable text"),
        ("a: [\u202e]", "f.yaml:1:5: $.a[0]: got the character '\\u202e', needs printable text"),
        ('a: "\\x9b"', "f.yaml:1:4: $.a: got the character '\\x9b', needs printable text"),
        (f"a: !{'t' * 99_999} 1", f"f.yaml:1:4: $.a: got the tag !{'t' * 59}..., needs a value without a tag"),
        (
            f"a: *{'t' * 99_999}",
            f"f.yaml:1:4: $.a: got the alias *{'t' * 60}..., needs no aliases; write the value out",
        ),
    ],
)
def test_what_is_outside_the_subset_is_refused_at_its_place(text, message):
    with pytest.raises(TopologyError) as caught:
        read_yaml(text, "f.yaml")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text", ["[" * 300_000, "- " * 300_000, "a:\n" + "".join(" " * n + "b:\n" for n in range(1, 99))]
)
def test_deep_nesting_is_refused_before_it_costs_anything(text):
    with pytest.raises(TopologyError, match=r"got more than 64 levels of nesting, needs at most 64$"):
        read_yaml(text, "f.yaml")


def test_an_empty_text_is_none():
    assert read_yaml("# nothing\n", "f") is None


def test_marks_are_of_keys_and_list_items():
    marks = read_marks("a:\n  - {b: 1, c: [x, y]}\n  - 2\n")
    assert marks == {
        (): (1, 1),
        ("a",): (1, 1),
        ("a", 0): (2, 5),
        ("a", 0, "b"): (2, 6),
        ("a", 0, "c"): (2, 12),
        ("a", 0, "c", 0): (2, 16),
        ("a", 0, "c", 1): (2, 19),
        ("a", 1): (3, 5),
    }


def test_a_path_is_written_as_msgspec_writes_it():
    assert format_path(("cube", "links", 2, "from")) == "$.cube.links[2].from"
    assert format_path(("a b\n",)) == r"$['a b\n']"
