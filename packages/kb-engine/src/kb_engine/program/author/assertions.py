"""AssertionWatch: the assertions of kernels whose conditions are pending, for pass 2 to check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kb_engine.observe.capture import Capture
from kb_engine.observe.observer import Observer
from kb_messages import KbError, KernelError

if TYPE_CHECKING:
    from kb_dataexec.execute import Look


class AssertionFailure(KernelError):
    """A `tl.device_assert` whose condition does not hold. The exit code is that of wrong data."""

    exit_code = 1


def failure(
    where: str, message: str, holds: npt.NDArray[Any], left_out: npt.NDArray[Any] | None = None
) -> AssertionFailure | None:
    """The error of a condition *holds*, at *where*, that is false at an element that is not *left_out*; None if there
    is no such element."""
    fails = np.asarray(holds) == 0
    if left_out is not None:
        fails = fails & ~left_out
    if not fails.any():
        return None
    at = f" at {np.argwhere(fails)[0].tolist()}" if fails.ndim else ""
    text = f": {message}" if message else ""
    return AssertionFailure(where, f"a tl.device_assert that does not hold{at}{text}", "a true condition")


class AssertionWatch(Observer):
    """Collects the assertions whose conditions pass 1 does not know, in the order of the kernels' calls."""

    def __init__(self) -> None:
        self.found: list[Capture] = []

    def clear(self) -> None:
        """Forgets all assertions, before a launch whose log is a log of its own."""
        self.found = []

    def on_capture(self, capture: Capture) -> None:
        """Adds *capture* if it is an assertion."""
        if capture.is_assertion:
            self.found.append(capture)

    @property
    def looks(self) -> list[Look]:
        """The places and moments at which pass 2 reads the conditions."""
        from kb_dataexec.execute import Look

        return [Look(each.command_seq, place.rectangle, place.dtype) for each in self.found for place in each.places]

    def failed(self, seen: Sequence[npt.NDArray[Any] | KbError]) -> AssertionFailure | None:
        """The first assertion that does not hold, in the order of the calls; None if all hold. *seen* has an array or
        an error for each of `looks`. An assertion whose condition could not be computed is passed over."""
        left = iter(seen)
        for each in self.found:
            contents = [next(left) for _ in each.places]
            arrays = [content for content in contents if not isinstance(content, KbError)]
            if len(arrays) < len(contents):
                continue
            where = f"{each.line}, in program {each.program} on {each.pe_id}"
            found = failure(where, each.name, each.value_from(arrays), each.left_out)
            if found is not None:
                return found
        return None

    def unchecked_text(self) -> str:
        """The sentence on the assertions that a run without pass 2 does not check; "" without one."""
        if not self.found:
            return ""
        several = len(self.found) > 1
        return (
            f"{len(self.found)} condition{'s' if several else ''} of tl.device_assert "
            f"{'were' if several else 'was'} not checked: the run has no pass 2, which computes pending values"
        )
