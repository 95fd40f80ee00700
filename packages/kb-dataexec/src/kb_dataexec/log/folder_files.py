"""The files in the folder of a log, and its manifest: the number of chunks and rows, and the digest.

README.md specifies them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from kb_dataexec.files import decode_json, file_in, read_bytes
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import LOG_FORMAT, LOG_FORMAT_VERSION, LogError

MANIFEST: Final = "manifest.json"
STRINGS: Final = "strings.jsonl"
IMMEDIATES: Final = "immediates.bin"
COMPRESSED_TABLES: Final = "commands", "dispatches", "transfers", "kernels", "messages"
"""The auxiliary tables that chunks of compressed rows make."""
VERSION_OF_ROWS: Final = 3
"""The format version of a log without compressed rows, which older readers can read."""


def chunk_path(folder: Path, name: str, chunk: int) -> Path:
    """The path of a chunk of table *name*: `ops`, `operands`, or, in version 2, an auxiliary table."""
    return folder / f"{name}-{chunk:06d}.npy"


def compressed_path(folder: Path, chunk: int) -> Path:
    """The path of a chunk of compressed rows, which replaces the files of its rows."""
    return folder / f"formulas-{chunk:06d}.z"


def read_part(folder: Path, name: str) -> bytes:
    """Reads the file *name* of the log in *folder*. Raises LogError if it cannot be read or does not exist."""
    path = file_in(folder, name, LogError)
    if not path.exists():
        fix = "read_log(folder, prefix=True) reads one that was cut off"
        raise LogError(str(path), "no such file", "a closed log", fix)
    return read_bytes(path, LogError)


class ManifestError(LogError):
    """The files of a log do not agree with its manifest: they were changed or damaged."""


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Stamp(Struct, frozen=True):
    """The fields of every manifest: the name and the version of the format."""

    format: str
    version: int


class Manifest(Stamp, frozen=True, kw_only=True):
    """The manifest of a closed log: the number of chunks, rows, strings and bytes of immediates, and the digest.

    A auxiliary table without a number of rows was left out. A log of version 1 has no auxiliary tables.
    """

    chunks: Annotated[int, Meta(ge=0, le=10**9)]
    ops: Count
    operands: Count
    dependencies: Count | UnsetType = UNSET
    commands: Count | UnsetType = UNSET
    dispatches: Count | UnsetType = UNSET
    transfers: Count | UnsetType = UNSET
    kernels: Count | UnsetType = UNSET
    messages: Count | UnsetType = UNSET
    sends: Count | UnsetType = UNSET
    signals: Count | UnsetType = UNSET
    waits: Count | UnsetType = UNSET
    calls: Count | UnsetType = UNSET
    reads: Count | UnsetType = UNSET
    strings: Count
    immediate_nbytes: Count
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

    @property
    def n_rows(self) -> dict[str, int]:
        """The number of rows of each auxiliary table of the log."""
        counts = {name: getattr(self, name) for name in TABLE_DTYPES} if self.version > 1 else {}
        return {name: count for name, count in counts.items() if count is not UNSET}


class CompressedManifest(Stamp, frozen=True, kw_only=True):
    """The manifest of a closed log with compressed rows. The rows are counted when they are made.

    `stored_digest` is the digest of the stored chunks, strings and immediates.
    """

    chunks: Annotated[int, Meta(ge=0, le=10**9)]
    strings: Count
    immediate_nbytes: Count
    stored_digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

    @property
    def n_rows(self) -> dict[str, int]:
        """The auxiliary tables that chunks of compressed rows make, each with 0, since their rows are not counted
        yet.
        """
        return dict.fromkeys(COMPRESSED_TABLES, 0)


AnyManifest = Manifest | CompressedManifest


def read_manifest(folder: Path, prefix: bool) -> AnyManifest | None:
    """Reads the manifest in *folder*. With *prefix*, returns None if there is no manifest.

    Raises LogError for a missing manifest without *prefix*, for damage, and for another format or version.
    """
    path = folder / MANIFEST
    if prefix and not os.path.lexists(path):
        return None
    text = read_part(folder, MANIFEST)
    stamp = decode_json(text, Stamp, str(path), LogError)
    if stamp.format != LOG_FORMAT or not 1 <= stamp.version <= LOG_FORMAT_VERSION:
        got = f"{stamp.format[:80]!r} version {str(stamp.version)[:20]}"
        raise LogError(str(path), got, f"{LOG_FORMAT!r} version 1 to {LOG_FORMAT_VERSION}")
    kind: type[AnyManifest] = Manifest if stamp.version <= VERSION_OF_ROWS else CompressedManifest
    return decode_json(text, kind, str(path), LogError)
