"""Choices of a program on its chip: texts and ints, and other values are refused."""

import numpy as np
import pytest

from kb_messages import KernelError


def test_choices_are_kept_and_a_later_one_replaces_an_earlier_one(toy_host):
    host = toy_host()
    assert host.choices == {}
    host.chose(operands="sharded", replicas=8)
    host.chose(replicas=1, grid="2 x 4")
    assert list(host.choices.items()) == [("operands", "sharded"), ("replicas", 1), ("grid", "2 x 4")]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (1.5, "a float for replicas"),
        (True, "a bool for replicas"),
        (None, "a NoneType for replicas"),
        (np.int64(3), "an int64 for replicas"),
        ("", "the text '' for replicas"),
        ("two\nlines", "the text 'two\\\\nlines' for replicas"),
        ("x" * 201, "the text 'x"),
    ],
)
def test_a_choice_of_another_type_and_a_text_that_steers_a_report_are_refused(toy_host, value, named):
    host = toy_host()
    with pytest.raises(KernelError, match=named):
        host.chose(operands="sharded", replicas=value)
    assert host.choices == {}


def test_a_call_that_says_nothing_is_refused(toy_host):
    with pytest.raises(KernelError, match="got no facts"):
        toy_host().chose()
