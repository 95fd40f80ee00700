"""What `importlib.metadata` says of Triton while its modules are there: a distribution of that name and release."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from kb_triton.module_names import VERSION


class TritonDistribution(Distribution):
    """A distribution `triton`, which has no files."""

    def read_text(self, filename: str) -> str | None:
        """The metadata; None for any other *filename*."""
        return f"Metadata-Version: 2.1\nName: triton\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Path:
        """Where the file *path* of this package would be."""
        return Path(__file__).parent / str(path)
