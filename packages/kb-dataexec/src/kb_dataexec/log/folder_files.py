"""The files of a log's folder. README.md describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kb_dataexec.files import file_in, read_bytes
from kb_messages import LogError

MANIFEST: Final = "manifest.json"
STRINGS: Final = "strings.jsonl"
IMMEDIATES: Final = "immediates.bin"
FORMULA_TABLES: Final = "commands", "dispatches", "transfers", "kernels", "messages"
"""The further tables of a log that chunks of formulas make."""
VERSION_OF_ROWS: Final = 3
"""The version of a log without formulas, which older readers read, too."""


def chunk_path(folder: Path, name: str, chunk: int) -> Path:
    """The file of one chunk of the table *name*: ops or operands, or, in version 2, a further table."""
    return folder / f"{name}-{chunk:06d}.npy"


def formulas_path(folder: Path, chunk: int) -> Path:
    """The file of one chunk of formulas, which stands instead of the files of its rows."""
    return folder / f"formulas-{chunk:06d}.z"


def read_part(folder: Path, name: str) -> bytes:
    """The bytes of the file *name* of the log in *folder*. Raises LogError, also where there is no such file."""
    path = file_in(folder, name, LogError)
    if not path.exists():
        fix = "read_log(folder, prefix=True) reads one that was cut off"
        raise LogError(str(path), "no such file", "a closed log", fix)
    return read_bytes(path, LogError)
