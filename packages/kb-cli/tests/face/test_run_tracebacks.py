"""Tracebacks of `kernbench.run`: frames of the author's files, and those of the kernel among them."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb

X = np.arange(32, dtype=np.float32).reshape(4, 8)
EMPTY = kb.empty(X.shape, "f32")


def test_an_error_has_the_frames_of_the_author_alone() -> None:
    def divides(tl: Any, x: Any, y: Any) -> None:
        tl.load(x[0 : 1 // 0])

    with pytest.raises(kb.KbError, match="ZeroDivisionError") as caught:
        kb.run(divides, X, EMPTY, chip="one_pe")
    here = [each for each in caught.traceback if each.path == Path(__file__)]
    assert [each.name for each in here] == ["test_an_error_has_the_frames_of_the_author_alone", "divides"]
    assert len(caught.traceback) == 3  # kernbench.run itself is the third


def test_an_interrupt_has_the_frames_of_the_author_alone() -> None:
    def interrupts(tl: Any, x: Any, y: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        kb.run(interrupts, X, EMPTY, chip="one_pe")
    here = [each for each in caught.traceback if each.path == Path(__file__)]
    assert [each.name for each in here] == ["test_an_interrupt_has_the_frames_of_the_author_alone", "interrupts"]
    assert len(caught.traceback) == 3


@pytest.mark.parametrize(
    "load", [lambda tl, x, y: tl.store(y, tl.load(x)[:2]), lambda tl, x, y: tl.store(y, tl.load(y))]
)
def test_a_traceback_shows_lines_of_the_author_alone(load: Any) -> None:
    def called(tl: Any, x: Any, y: Any) -> None:
        load(tl, x, y)

    with pytest.raises(kb.KbError) as caught:
        kb.run(called, X, EMPTY, pes=[0])
    shown = [entry.name for entry in caught.traceback]
    assert shown == ["test_a_traceback_shows_lines_of_the_author_alone", "run", "called", "<lambda>"]
    with pytest.raises(kb.KbError) as caught:
        kb.run(called, X, pes=[0])
    assert [entry.name for entry in caught.traceback][1:] == ["run"]
