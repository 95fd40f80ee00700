"""Kinds of state: how each is handed to a visitor, and which values a visitor moves on."""

from collections import deque
from typing import ClassVar, NamedTuple

import pytest

from kb_engine.block import (
    BY_HAND,
    CALL,
    COUNT,
    DEADLINE,
    MOMENT,
    MOMENT_OR_NONE,
    OP,
    PART,
    SAME,
    SIZE,
    ExclusivePort,
    Gate,
    NotPeriodic,
    State,
    Stateful,
    each,
    each_value,
    optional,
    row,
)
from kb_engine.testing.state_views import Later, View
from kb_messages import WaitReason

LATER_PS = 1_000_003


class Rate(NamedTuple):
    since_ps: int
    rate: float


def moved(kind, value):
    return kind.visit(Later(deep=False), value)


def viewed(kind, value, now_ps=100):
    view = View(now_ps)
    kind.visit(view, value)
    return view.values


@pytest.mark.parametrize(
    ("kind", "value", "later"),
    [
        (MOMENT, 5, 5 + LATER_PS),
        (MOMENT_OR_NONE, 5, 5 + LATER_PS),
        (MOMENT_OR_NONE, -1, -1),
        (DEADLINE, 5, 5 + LATER_PS),
        (OP, 7, 7),
        (SAME, 7, 7),
        (BY_HAND, 7, 7),
        (optional(MOMENT), None, None),
        (optional(MOMENT), 5, 5 + LATER_PS),
        (row(SAME, MOMENT), ("a", 5), ("a", 5 + LATER_PS)),
        (row(MOMENT, SAME), Rate(5, 0.5), Rate(5 + LATER_PS, 0.5)),
        (each(MOMENT), None, None),
    ],
)
def test_a_visitor_gives_the_new_value(kind, value, later):
    found = moved(kind, value)
    assert found == later
    assert type(found) is type(later)


@pytest.mark.parametrize("items", [[5, 6], deque([5, 6])])
def test_moments_of_a_collection_move_in_place(items):
    assert moved(each(MOMENT), items) is items
    assert list(items) == [5 + LATER_PS, 6 + LATER_PS]


def test_values_of_a_dict_move_in_place():
    items = {"a": (5, 1.0)}
    assert moved(each_value(row(MOMENT, SAME)), items) is items
    assert items == {"a": (5 + LATER_PS, 1.0)}


def test_a_row_without_moments_stays_the_same_object():
    values = (1, [2])
    assert moved(row(SAME, SAME), values) is values


def test_a_view_has_a_copy_of_a_collection_that_changes_later():
    rows, held = [1, 2], {"a": 1}
    before = viewed(SAME, rows), viewed(SAME, held)
    rows.append(3)
    held["b"] = 2
    assert before == ([((1, 2),)], [((("a", 1),),)])
    assert viewed(SAME, rows) != before[0]
    assert viewed(SAME, held) != before[1]


def test_a_deadline_in_the_past_is_that_of_a_free_block():
    assert viewed(DEADLINE, 40) == viewed(DEADLINE, 100) != viewed(DEADLINE, 101)
    assert viewed(MOMENT, 40) != viewed(MOMENT, 100)


def test_the_number_of_items_is_part_of_a_view():
    assert viewed(each(SAME), []) != viewed(each(SAME), None)
    assert viewed(SIZE, [1, 2]) == viewed(SIZE, [3, 4]) != viewed(SIZE, [1])
    assert viewed(PART, None) != viewed(PART, Base())
    assert viewed(CALL, [].append) != viewed(CALL, [].pop)


class Base(Stateful):
    state: ClassVar[State] = {"free_ps": DEADLINE, "since_ps": BY_HAND}

    def __init__(self):
        self.free_ps, self.since_ps, self.served, self.name = 1, 2, 3, "a"


class Derived(Base):
    state: ClassVar[State] = {"served": COUNT}


def test_attributes_of_base_classes_are_visited_first_and_by_hand_is_left_out():
    part, view = Derived(), View(0)
    part.visit_state(view)
    assert view.values == [1, 3]
    part.visit_state(Later())
    assert (part.free_ps, part.since_ps, part.name) == (1 + LATER_PS, 2, "a")
    assert part.served > 3


class Room(Gate):
    """A gate that states nothing."""

    reason = WaitReason.CHANNEL


class Names(Room):
    state: ClassVar[State] = ("bytes",)


class Stated(Room):
    state: ClassVar[State] = {}


@pytest.mark.parametrize("gate", [Room, Names])
def test_a_gate_without_kinds_is_not_periodic(gate):
    with pytest.raises(NotPeriodic):
        gate().visit_state(View(0))


@pytest.mark.parametrize("gate", [Stated(), ExclusivePort(WaitReason.TCM_PORT)])
def test_a_gate_with_kinds_hands_over_its_waiters_too(gate):
    view = View(0)
    gate.visit_state(view)
    assert view.values[0] == (0,)
