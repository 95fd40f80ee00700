"""The turns of loops, from frames and source alone."""

import sys
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from kb_engine.program.author.loop_turns import LoopTurns, frames_to, loops_of, share_done


class Seen(Exception):
    """Ends a function at a chosen turn."""


def turns_of(function: Any, *arguments: Any) -> list[tuple[int, int]]:
    """The turns of the loops in which *function* raised Seen."""
    with pytest.raises(Seen) as caught:
        function(*arguments)
    frames: list[FrameType] = []
    trace = caught.value.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    return [(each.turn, each.turns) for each in loops_of(frames)]


def nested(n: int, stop_at: int) -> None:
    for i in range(4, n, 3):
        for j in range(n - 1, 0, -2):
            if i == 10 and j == stop_at:
                raise Seen


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


SIZE = 7


def computed(x: Any, k: int) -> None:
    for a in range(cdiv(k, 16) + SIZE % 4):
        inner(x, a)


def inner(x: Any, a: int) -> None:
    for _ in [0]:
        for b in range(2 * a, -(-a * 10)):
            if b == 33:
                raise Seen


def not_plain(n: Any, numbers: list[int]) -> None:
    for _ in range(len(numbers)):
        for _ in range(n.size):
            for _, _ in zip(range(3), range(3), strict=True):
                raise Seen


def test_nested_loops_are_found_outermost_first() -> None:
    """Of 4, 7, 10, ..., 19, turn 2 is 10; of 19, 17, ..., 1, turn 3 is 13."""
    assert turns_of(nested, 20, 13) == [(2, 6), (3, 10)]


def test_bounds_may_be_computed_and_loops_in_functions_that_called_each_other() -> None:
    """cdiv(50, 16) is 4, and 4 + 7 % 4 is 7. With a = 4, range(8, 40) is at 33 in turn 25 of 32."""
    assert turns_of(computed, None, 50) == [(4, 7), (25, 32)]


def test_a_loop_whose_bounds_run_code_is_left_out() -> None:
    assert turns_of(not_plain, SimpleNamespace(size=2), [1]) == []


def test_the_share_of_nested_loops() -> None:
    loops = [LoopTurns("a:1", 2, 8), LoopTurns("a:2", 3, 4)]
    assert share_done(loops) == 2 / 8 + 3 / 4 / 8
    assert share_done([]) == 0


def test_a_look_keeps_no_value_of_the_frame_alive() -> None:
    """Before Python 3.13, a frame keeps the dictionary of its names. A kernel's value would keep its TCM."""
    gone: list[str] = []

    class Value:
        def __del__(self) -> None:
            gone.append("value")

    def holds() -> None:
        value = Value()
        for i in range(3):
            assert [(each.turn, each.turns) for each in loops_of(frames_to(sys._getframe())[-1:])] == [(i, 3)]
            if i == 1:
                del value
                assert gone == ["value"]

    holds()
