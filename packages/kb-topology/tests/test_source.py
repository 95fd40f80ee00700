import pytest

from kb_topology import YamlSource

SOURCE = YamlSource("dir/f.yaml", "a:\n  b:\n    - c: 1\n      d: 2\n")


@pytest.mark.parametrize(
    ("path", "position"), [(("a", "b", 0, "d"), (4, 7)), (("a", "b", 0), (3, 7)), (("a",), (1, 1)), ((), (1, 1))]
)
def test_positions_count_from_one(path, position):
    assert SOURCE.locate(path) == position


def test_what_is_missing_is_located_at_its_nearest_parent():
    assert SOURCE.locate(("a", "b", 7, "x")) == (2, 3)


def test_an_error_shows_file_line_column_and_path():
    error = SOURCE.error(("a", "b", 0, "d"), "2", ">= 3", "raise it")
    assert str(error) == "dir/f.yaml:4:7: $.a.b[0].d: got 2, needs >= 3; raise it"


def test_an_empty_text_is_located_at_its_beginning():
    assert str(YamlSource("f", "").error((), "an empty file", "more")) == "f:1:1: $: got an empty file, needs more"
