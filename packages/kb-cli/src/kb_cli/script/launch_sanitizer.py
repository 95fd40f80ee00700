"""LaunchSanitizer: what `--sanitize` sees of a launch of a script that its log does not show, for each launch anew."""

from __future__ import annotations

from collections.abc import Sequence

from kb_cli.run.result_parts import Sanitized
from kb_cli.run.sanitizer import SanitizerWatch, sanitize_run
from kb_dataexec import MemoryStore, OpLog
from kb_engine import LaunchResult
from kb_engine.observe import Observer
from kb_engine.program import LeakWatch, WrapWatch


class LaunchSanitizer(Observer):
    """Watches the launches of a script. What it has is that of the last launch."""

    def __init__(self) -> None:
        self._watch = SanitizerWatch(LeakWatch(), WrapWatch())

    def on_launch(self) -> None:
        """As `Observer.on_launch`: begins anew."""
        self._watch = SanitizerWatch(LeakWatch(), WrapWatch())

    def on_allocate(self, pe_id: str, address: int, nbytes: int, line: str) -> None:
        """As `Observer.on_allocate`."""
        self._watch.leaks.on_allocate(pe_id, address, nbytes, line)

    def on_free(self, pe_id: str, address: int) -> None:
        """As `Observer.on_free`."""
        self._watch.leaks.on_free(pe_id, address)

    def on_program_end(self, pe_id: str, held: Sequence[int]) -> None:
        """As `Observer.on_program_end`."""
        self._watch.leaks.on_program_end(pe_id, held)

    def on_wrapped_index(self, pe_id: str, line: str, wrapped_at: str) -> None:
        """As `Observer.on_wrapped_index`."""
        self._watch.wraps.on_wrapped_index(pe_id, line, wrapped_at)

    def found(self, log: OpLog, initial: MemoryStore, result: LaunchResult) -> Sanitized:
        """What there is to find in the launch that gave *log* and *result*, on the memory *initial*."""
        return sanitize_run(log, initial, [(result.start_ps, result.end_ps)], self._watch)
