"""Differences of two documents: elements of lists are matched by their names, and every difference is listed once."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_cli.compare.differences import NOT_THERE, ValueDifference, differences, element_pairs, moved

LINKS: list[dict[str, Any]] = [{"from": f"pe{each}", "to": "noc", "bw_gbs": 64 + each} for each in range(4)]


def differences_of(before: Any, after: Any) -> list[tuple[Any, ...]]:
    return [tuple(each) for each in differences(before, after)]


def test_an_inserted_link_is_the_only_difference() -> None:
    new = {"from": "sram", "to": "noc", "bw_gbs": 1}
    places = [(("links", 1, key), ("links", 1, key), NOT_THERE, value, False) for key, value in new.items()]
    assert differences_of({"links": LINKS}, {"links": [LINKS[0], new, *LINKS[1:]]}) == places
    gone = [(*place[:2], value, NOT_THERE, False) for place, value in zip(places, new.values(), strict=True)]
    assert differences_of({"links": [LINKS[0], new, *LINKS[1:]]}, {"links": LINKS}) == gone


def test_a_value_behind_an_inserted_link_has_two_places() -> None:
    after = deepcopy(LINKS)
    after[2]["bw_gbs"] = 128
    after.insert(0, {"from": "sram", "to": "noc"})
    assert differences_of(LINKS, after)[0] == ((2, "bw_gbs"), (3, "bw_gbs"), 66, 128, False)
    assert len(differences_of(LINKS, after)) == 3


def test_a_link_with_another_end_is_the_same_link() -> None:
    after = deepcopy(LINKS)
    after[1]["to"] = "xbar"
    assert differences_of(LINKS, after) == [((1, "to"), (1, "to"), "noc", "xbar", False)]


def test_links_between_the_same_ends_are_matched_in_order() -> None:
    twice = [{"from": "a", "to": "b", "bw_gbs": 1}, {"from": "a", "to": "b", "bw_gbs": 2}]
    assert differences_of(twice, deepcopy(twice)) == []
    assert differences_of(twice, [*twice, {"from": "a", "to": "b"}]) == [
        ((2, "from"), (2, "from"), NOT_THERE, "a", False),
        ((2, "to"), (2, "to"), NOT_THERE, "b", False),
    ]


def test_a_link_that_stands_elsewhere_is_listed_once() -> None:
    """Links in another order can give other routes."""
    assert differences_of(LINKS, [LINKS[3], *LINKS[:3]]) == [((3,), (0,), 3, 0, True)]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ([1, 2, 3], [1, 5, 3], [((1,), (1,), 2, 5, False)]),
        ([1, 2], [2], [((0,), (0,), 1, 2, False), ((1,), (1,), 2, NOT_THERE, False)]),
        ({"x": None}, {}, [(("x",), ("x",), None, NOT_THERE, False)]),
        ({"x": True}, {"x": 1}, [(("x",), ("x",), True, 1, False)]),
        ({"x": 1}, {"x": 1.0}, []),
        ({"x": {}}, {}, [(("x",), ("x",), {}, NOT_THERE, False)]),
        ({"x": {"y": 1}}, {"x": 2}, [(("x",), ("x",), {"y": 1}, 2, False)]),
        (["a -> b", "b -> c"], ["b -> c"], [((0,), (0,), "a -> b", NOT_THERE, False)]),
    ],
)
def test_values_of_every_kind(before: Any, after: Any, found: list[ValueDifference]) -> None:
    assert differences_of(before, after) == found


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_every_element_is_in_one_pair(before: list[str], after: list[str]) -> None:
    pairs = element_pairs(before, after)
    assert sorted(old for old, _ in pairs if old is not None) == list(range(len(before)))
    assert sorted(new for _, new in pairs if new is not None) == list(range(len(after)))


@given(st.permutations(range(6)))
def test_rows_that_did_not_move_stand_in_order(order: list[int]) -> None:
    pairs = list(enumerate(order))
    found = moved(pairs)
    stays = [new for old, new in pairs if (old, new) not in found]
    assert stays == sorted(stays)
    assert bool(found) is (list(order) != sorted(order))
