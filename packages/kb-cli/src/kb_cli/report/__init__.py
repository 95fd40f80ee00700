"""Reports of commands, as data, tables, pictures and pages. The report of a finished run is public, for programs."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_cli.report.data.run_report import TimeReport as TimeReport
    from kb_cli.report.data.run_report import read_report as read_report


_NAMES = {
    "kb_cli.report.data.run_report": ("TimeReport", "read_report"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
