"""What values that a kernel is given have in common with values that decide the same."""

from dataclasses import dataclass

from kb_triton.jit.forms import form_of


@dataclass(frozen=True)
class Sizes:
    rows: int


def test_a_value_of_a_dataclass_is_itself_with_the_attributes_that_it_has_now():
    one, other = Sizes(2), Sizes(2)
    before = form_of(one)
    assert before == form_of(one)
    assert before != form_of(other)
    object.__setattr__(one, "rows", 3)
    assert before != form_of(one)
