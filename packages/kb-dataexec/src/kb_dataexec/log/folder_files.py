"""The files of a log's folder. README.md describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

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
