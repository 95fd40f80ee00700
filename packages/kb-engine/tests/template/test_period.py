"""The stretch of a list of steps that is a loop."""

from kb_engine.template.period import LoopStretch, longest_stretch


def stretch(text: str) -> LoopStretch | None:
    """The stretch of the letters of *text*. Turns end with an `s`."""
    return longest_stretch(text, [each == "s" for each in text])


def test_turns_end_where_they_may() -> None:
    assert stretch("p" + "als" * 20 + "e") == LoopStretch(1, 3, 20)
    assert stretch("lsa" * 20) == LoopStretch(2, 3, 19)


def test_the_shortest_turn_that_is_half_of_the_steps() -> None:
    assert stretch("ls" * 40) == LoopStretch(0, 2, 40)
    assert stretch(("ls" * 3 + "xs") * 20) == LoopStretch(0, 8, 20)


def test_no_loop() -> None:
    assert stretch("") is None
    assert stretch("als" * 15) is None
    assert stretch("p" * 70 + "als" * 20) is None
    assert stretch("".join(map(chr, range(1000, 1100)))) is None
    assert longest_stretch("al" * 40, [False] * 80) is None
