"""The file of a trace."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kb_cli.terminal.output_file import check_ending, check_folder
from kb_cli.trace.trace_bytes import Unit, trace_blocks
from kb_cli.trace.tracks import Trace
from kb_dataexec.files import writing

_PLAIN, _PACKED = ".pftrace", ".pftrace.gz"
_LEVEL = 6
"""Of gzip. Source: measured; 9 takes three times as long and saves a twentieth."""


def check_trace_file(path: Path) -> None:
    """Raise KbError unless *path* is the name of a trace file in a folder that can be written."""
    check_ending("-o", path, _PLAIN, _PACKED)
    check_folder("-o", path)


def write_trace(trace: Trace, unit: Unit, path: Path) -> int:
    """Write *trace* to *path*, packed where the name says so. Returns the number of bytes in the file.

    The file appears when it is whole. Equal traces give equal bytes. Raises OSError, which names the file, for one that
    cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path), _opened(part, path) as write:
            for block in trace_blocks(trace, unit):
                write(block)
        with writing(path):
            os.replace(part, path)
            return path.stat().st_size
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _opened(part: Path, path: Path) -> Iterator[Callable[[bytes], int]]:
    """The function that writes to *part*, which will be *path*, packed where the name of *path* says so."""
    with part.open("wb") as file:
        if path.name.endswith(_PACKED):
            with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as packed:
                yield packed.write
        else:
            yield file.write
