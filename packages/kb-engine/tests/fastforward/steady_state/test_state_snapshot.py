"""Snapshots of the state of a simulation: which states are equal."""

from kb_engine.fastforward.steady_state.program_snapshot import Numbers, ProgramSnapshot

NUMBERS = Numbers(0, 0, 0)


class Part:
    """What another object may replace."""

    def method(self) -> None:
        """What will be called."""


def test_an_object_that_comes_after_another_is_not_identical_to_it() -> None:
    # Without anybody who keeps the first object, the second one is made at its place, and has its id.
    before, after = ProgramSnapshot(0, NUMBERS, NUMBERS), ProgramSnapshot(0, NUMBERS, NUMBERS)
    before.identical(Part())
    after.identical(Part())
    assert before.parts != after.parts


def test_the_object_of_a_method_is_not_identical_to_a_later_one() -> None:
    before, after = ProgramSnapshot(0, NUMBERS, NUMBERS), ProgramSnapshot(0, NUMBERS, NUMBERS)
    before.call(Part().method)
    after.call(Part().method)
    assert before.parts != after.parts


def test_an_object_is_identical_to_itself() -> None:
    before, after, part = ProgramSnapshot(0, NUMBERS, NUMBERS), ProgramSnapshot(0, NUMBERS, NUMBERS), Part()
    for snapshot in (before, after):
        snapshot.identical(part)
        snapshot.call(part.method)
    assert before.parts == after.parts
