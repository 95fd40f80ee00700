"""The request of a page, with typed access to its fields."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from kb_cli.web.opened_runs import OpenedRun, OpenedRuns
from kb_cli.web.run_index import RunIndex
from kb_cli.web.sweep_index import SweepIndex
from kb_messages import KbError

_DIGITS: Final = 20
"""More digits than any number of a page has."""


class NoViewError(KbError):
    """Raised for a request that no view makes. Its answer has the status 404."""

    status = HTTPStatus.NOT_FOUND


class WebRequest(NamedTuple):
    """An admitted request: the fields of its query, each once, the runs, the runs in use, and the sweeps."""

    fields: Mapping[str, str]
    run_index: RunIndex
    opened: OpenedRuns
    sweeps: SweepIndex

    def field(self, name: str) -> str:
        """Returns the field *name*. Raises KbError where the query has none."""
        if name not in self.fields:
            raise KbError(name, "nothing", "a value in the address")
        return self.fields[name]

    def whole(self, name: str, least: int, most: int) -> int:
        """Returns the field *name* as a whole number from *least* to *most*. Raises KbError for anything else."""
        return whole_number(name, self.field(name), least, most)

    @property
    def run(self) -> OpenedRun:
        """The run that the field `run` names, with the field `stamp` in the state of that stamp.

        Raises NoRunError when there is none, and RunWentOnError where it is no longer kept as it was.
        """
        return self.opened.run(self.run_index.place(self.field("run")), self.fields.get("stamp"))

    def run_of(self, name: str) -> OpenedRun:
        """Returns the run that the field *name* names, as it is now."""
        return self.opened.run(self.run_index.place(self.field(name)), None)


def whole_number(name: str, text: str, least: int, most: int) -> int:
    """Returns *text* as a whole number from *least* to *most*. Raises KbError, which begins with *name*, for
    anything else.
    """
    is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < _DIGITS
    if not is_number or not least <= int(text) <= most:
        raise KbError(name, repr(text[:40]), f"a whole number from {least} to {most}")
    return int(text)
