"""Answers come in the order of the clock: by time, then what belongs to no PE, then PE after PE."""

import pytest

from kb_engine.launch.answer_tree import AnswerTree
from kb_messages import MessageKind

ABOVE = {"a": ("m0", 5), "b": ("m1", 7), "c": ("m1", 7), "m0": ("io", 7), "m1": ("io", 7), "io": ("host", 3)}
"""Two cubes: the first has PE a, the second has the PEs b and c."""


@pytest.fixture
def tree():
    found = object.__new__(AnswerTree)  # the blocks of a chip are not needed for what follows from their ways
    found.above, found._host_id = ABOVE, "host"
    found._numbers = {"a": 0, "b": 1, "c": 2}
    found._n_parts = {"m0": 1, "m1": 2, "io": 2, "host": 1}
    return found


def of(answers):
    assert {(launch, kind) for _, (launch, kind, *_) in answers.messages} == {(0, MessageKind.RESPONSE)}
    return [(*way, *times) for way, (_, _, *times) in answers.messages]


def test_an_answer_that_arrives_goes_on_before_the_pe_that_ends_in_that_picosecond(tree):
    """a's answer is at m0 at 15, where b ends: the answers of m0 and b leave at 15, and both arrive at 22."""
    found = tree.answers({"a": 10, "b": 15, "c": 20})
    assert found.ends == ("a", "b", "c")
    assert of(found) == [
        ("a", "m0", 10, 15), ("m0", "io", 15, 22), ("b", "m1", 15, 22), ("c", "m1", 20, 27), ("m1", "io", 27, 34),
        ("io", "host", 34, 37),
    ]  # fmt: skip
    assert found.answered_ps == 37


def test_pes_that_end_together_answer_in_their_order(tree):
    found = tree.answers({"c": 10, "b": 10, "a": 10})
    assert found.ends == ("a", "b", "c")
    assert [way[0] for way, _ in found.messages] == ["a", "b", "c", "m0", "m1", "io"]
    assert found.answered_ps == 10 + 7 + 7 + 3


def test_a_processor_answers_when_its_last_part_has(tree):
    found = tree.answers({"a": 100, "b": 1, "c": 50})
    assert of(found)[-4:] == [
        ("m1", "io", 57, 64),
        ("a", "m0", 100, 105),
        ("m0", "io", 105, 112),
        ("io", "host", 112, 115),
    ]
