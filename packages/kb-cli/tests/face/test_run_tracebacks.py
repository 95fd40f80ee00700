"""Tracebacks of `kernbench.run`: frames of the author's files, and frames of the kernel among them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb

X = np.arange(32, dtype=np.float32).reshape(4, 8)
EMPTY = kb.empty(X.shape, "f32")


def divides(tl: Any, x: Any, y: Any) -> None:
    tl.load(x[0 : 1 // 0])


def interrupts(tl: Any, x: Any, y: Any) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("kernel", "error", "match"), [(divides, kb.KbError, "ZeroDivisionError"), (interrupts, KeyboardInterrupt, None)]
)
def test_a_traceback_has_the_frames_of_the_author_alone(
    kernel: Callable[..., None], error: type[BaseException], match: str | None
) -> None:
    with pytest.raises(error, match=match) as caught:
        kb.run(kernel, X, EMPTY, chip="one_pe")
    here = [each for each in caught.traceback if each.path == Path(__file__)]
    assert [each.name for each in here] == ["test_a_traceback_has_the_frames_of_the_author_alone", kernel.__name__]
    assert len(caught.traceback) == 3  # kernbench.run itself is the third


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


def test_an_unknown_chip_shows_the_call_alone() -> None:
    with pytest.raises(kb.KbError, match="got an unknown name") as caught:
        kb.chip("nothere")
    assert [entry.name for entry in caught.traceback][1:] == ["chip"]
