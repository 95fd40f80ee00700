import pytest

from kb_topology.sentences import cut, did_you_mean, listing, short


def test_a_close_name_is_suggested_and_a_far_one_is_not():
    assert did_you_mean("brige", ["xbar", "bridge"]) == "did you mean 'bridge'?"
    assert did_you_mean("qqq", ["xbar", "bridge"]) == ""


def test_a_listing_says_how_many_it_left_out():
    assert listing(["a", "b", "c"], limit=2) == "a, b and 1 more"
    assert listing([]) == "none"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), ("x\ny", r"'x\ny'"), ({"a": 1}, "a mapping"), ([1, 2], "a list of 2"), (0, "0")],
)
def test_values_are_shown_as_yaml_writers_know_them(value, text):
    assert short(value) == text


def test_long_values_are_cut():
    assert cut("x" * 61) == "x" * 60 + "..."
