"""PathLabels: the kernel line, the block and the work of segments, in one number each. PathTexts: their strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from kb_dataexec.analysis.critical_path.events import Work
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.transfer_parts import MEMORY, PART_OF, TransferParts
from kb_dataexec.arrays.dtypes import Array

UNKNOWN: Final = "unknown"
"""The block and the work of segments without a known cause."""
WAITS_FOR_PES: Final = "waits for other PEs"
"""The work of a program while it waits for programs on other PEs."""
_DECODE: Final = ("pe_scheduler", "decode")
_ISSUE: Final = ("pe_cpu", "issue")
_PROGRAM: Final = ("pe_cpu", "program")
_UNKNOWN: Final = (UNKNOWN, UNKNOWN)
_SYNCS: Final = {
    Work.CALL: _ISSUE,
    Work.DOORBELL: ("pe_queue", "doorbell"),
    Work.CREDIT: ("pe_queue", "credit"),
    Work.WAY: ("links", "request"),
    Work.WAIT: ("program", WAITS_FOR_PES),
}
"""The block and the work of each kind of time of a call that waits for, or signals, other programs."""


class PathTexts:
    """The strings of segments by number: the strings of a log, then added strings."""

    def __init__(self, strings: Sequence[str]) -> None:
        self.strings = list(strings)
        self._numbers = {text: number for number, text in reversed(list(enumerate(strings)))}

    def number(self, text: str) -> int:
        """Returns the number of *text*. Adds *text* if it is new."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.strings)
            self.strings.append(text)
        return found

    def numbers(self, texts: Iterable[str]) -> Array:
        """Returns the numbers of *texts*."""
        return np.array([self.number(text) for text in texts], np.int64)


class PathLabels:
    """Labels of segments: a label is the number of a kernel line, a block, and the work of the block.

    `line`, `block` and `what` return the strings of labels, as numbers in *texts*.
    """

    def __init__(self, rows: PathRows, transfers: TransferParts, texts: PathTexts) -> None:
        strings, self._server, self._memory = rows.log.strings, rows.ops.server, transfers.memory
        self._kinds: dict[tuple[str, str], int] = {}
        components, names = (numbers.tolist() for numbers in rows.ops.servers)
        self._of_server = self._numbers(
            (block_of(strings[component]), work_of(strings[name]))
            for component, name in zip(components, names, strict=True)
        )
        memories = [memory_kind(strings[memory]) for memory in transfers.memories.tolist()]
        parts = [
            (block if block != MEMORY else memory, what) for memory in memories for block, what in PART_OF.values()
        ]
        self._of_part = self._numbers(parts).reshape(-1, len(PART_OF))
        others = _DECODE, _ISSUE, _PROGRAM, _UNKNOWN
        self._decode, self._issue, self._program, self._unknown = self._numbers(others).tolist()
        self._of_sync = np.zeros(max(_SYNCS) + 1, np.int64)
        self._of_sync[list(_SYNCS)] = self._numbers(_SYNCS.values())
        lines = np.union1d(np.union1d(rows.commands.line, rows.ops.line), rows.syncs.line)
        self._line_of_sync = np.searchsorted(lines, rows.syncs.line)
        self._line_of = np.append(np.searchsorted(lines, rows.commands.line), len(lines))
        self._lines, self._line_of_op = np.append(lines, texts.number("")), rows.ops.line
        self._blocks, self._whats = (texts.numbers(kind[at] for kind in self._kinds) for at in (0, 1))

    def of_services(self, ops: Array) -> Array:
        """The labels of whole services of *ops*, each with its own line."""
        lines = np.searchsorted(self._lines[:-1], self._line_of_op[ops])
        found: Array = lines * len(self._kinds) + self._of_server[self._server[ops]]
        return found

    def of_parts(self, transfers: Array, part: int, commands: Array) -> Array:
        """The labels of part number *part* of *transfers*, which belong to *commands*."""
        return self._labels(commands, self._of_part[self._memory[transfers], part])

    def of_decode(self, commands: Array) -> Array:
        """The labels of the decoding of *commands*."""
        return self._labels(commands, self._decode)

    def of_issue(self, commands: Array) -> Array:
        """The labels of the issue of *commands*."""
        return self._labels(commands, self._issue)

    def of_programs(self, count: int) -> Array:
        """The labels of *count* starts of programs."""
        return self._labels(np.full(count, -1), self._program)

    def of_syncs(self, syncs: Array, work: Array) -> Array:
        """The labels of the kinds of time *work* of *syncs*, calls that wait or signal."""
        found: Array = self._line_of_sync[syncs] * len(self._kinds) + self._of_sync[work]
        return found

    def of_unknown(self, count: int) -> Array:
        """The labels of *count* segments without a known cause."""
        return self._labels(np.full(count, -1), self._unknown)

    def __len__(self) -> int:
        """The number of possible labels."""
        return len(self._lines) * len(self._kinds)

    def line(self, labels: Array) -> Array:
        """The line of each of *labels*."""
        found: Array = self._lines[labels // len(self._kinds)]
        return found

    def block(self, labels: Array) -> Array:
        """The block of each of *labels*."""
        found: Array = self._blocks[labels % len(self._kinds)]
        return found

    def what(self, labels: Array) -> Array:
        """The work of the block of each of *labels*."""
        found: Array = self._whats[labels % len(self._kinds)]
        return found

    def _labels(self, commands: Array, kinds: Array | int) -> Array:
        return self._line_of[commands] * len(self._kinds) + kinds

    def _numbers(self, kinds: Iterable[tuple[str, str]]) -> Array:
        return np.array([self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds], np.int64)


def work_of(name: str) -> str:
    """Returns the work of a block in an op with this *name*."""
    return "service" if name.startswith("dma_") else name


def block_of(component: str) -> str:
    """Returns the kind of the block *component*: its id without the PE."""
    return component.rpartition(".")[2]


def memory_kind(memory: str) -> str:
    """Returns the kind of *memory*: its id without its place and number."""
    return block_of(memory).rstrip("0123456789")
