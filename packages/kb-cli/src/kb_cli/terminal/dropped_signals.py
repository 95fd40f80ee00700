"""Signals that Python drops: it ignores an exception of a signal handler within `__del__` or a callback of `gc`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from signal import Signals
from typing import Any

_AGAIN_S = 0.05
"""Seconds until the signal is sent again. By then Python has left the code that drops exceptions."""


@contextmanager
def raised_again(signals: Mapping[type[BaseException], Signals]) -> Iterator[None]:
    """Sends the process a signal again when Python dropped the exception of its handler, while the block runs.

    *signals* has the number of the signal for each exception.
    """
    before = sys.unraisablehook

    def reported(dropped: Any) -> None:
        number = signals.get(dropped.exc_type)
        if number is None:
            before(dropped)
        else:
            _send_soon(number)

    sys.unraisablehook = reported
    try:
        yield
    finally:
        sys.unraisablehook = before


def _send_soon(number: Signals) -> None:
    import _thread  # loaded when a signal was dropped, so that kb starts at once
    from time import sleep

    def send() -> None:
        sleep(_AGAIN_S)
        _thread.interrupt_main(number)

    _thread.start_new_thread(send, ())  # a Thread of `threading` waits until it has begun, within the hook
