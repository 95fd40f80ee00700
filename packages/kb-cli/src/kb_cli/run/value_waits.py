"""How often and how long programs waited for computed values that their kernels looked at."""

from __future__ import annotations

from kb_cli.run.result_parts import ValueWait
from kb_engine.observe import Observer


class ValueWaits(Observer):
    """Adds up looks at computed values by kernel line."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, int]] = {}

    def on_look(self, pe_id: str, line: str, waited_ps: int) -> None:
        """As `Observer.on_look`."""
        count, ps = self._found.get(line, (0, 0))
        self._found[line] = count + 1, ps + waited_ps

    @property
    def found(self) -> list[ValueWait]:
        """The lines with looks, the one that waited longest first."""
        waits = [ValueWait(line=line, count=count, waited_ps=ps) for line, (count, ps) in self._found.items()]
        return sorted(waits, key=lambda each: (-each.waited_ps, each.line))
