"""The files of a log's folder. README.md describes them."""

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
"""The further tables of a log that chunks of formulas make."""
VERSION_OF_ROWS: Final = 3
"""The version of a log without formulas, which older readers read, too."""


def chunk_path(folder: Path, name: str, chunk: int) -> Path:
    """The file of one chunk of the table *name*: ops or operands, or, in version 2, a further table."""
    return folder / f"{name}-{chunk:06d}.npy"


def compressed_path(folder: Path, chunk: int) -> Path:
    """The file of one chunk of formulas, which stands instead of the files of its rows."""
    return folder / f"formulas-{chunk:06d}.z"


def read_part(folder: Path, name: str) -> bytes:
    """The bytes of the file *name* of the log in *folder*. Raises LogError, also where there is no such file."""
    path = file_in(folder, name, LogError)
    if not path.exists():
        fix = "read_log(folder, prefix=True) reads one that was cut off"
        raise LogError(str(path), "no such file", "a closed log", fix)
    return read_bytes(path, LogError)


class ManifestError(LogError):
    """The files of a log do not agree with its manifest: they were changed or damaged."""


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Stamp(Struct, frozen=True):
    """What every manifest begins with."""

    format: str
    version: int


class Manifest(Stamp, frozen=True, kw_only=True):
    """The manifest of a closed log: the number of chunks, rows, strings and bytes of immediates, and the digest.

    A further table without a number of rows was left out. A log of version 1 has none.
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
    strings: Count
    immediate_nbytes: Count
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

    @property
    def n_rows(self) -> dict[str, int]:
        """The number of rows of each further table that the log has."""
        counts = {name: getattr(self, name) for name in TABLE_DTYPES} if self.version > 1 else {}
        return {name: count for name, count in counts.items() if count is not UNSET}


class CompressedManifest(Stamp, frozen=True, kw_only=True):
    """The manifest of a closed log with formulas. Its rows are counted when they are made.

    `stored_digest` is the digest of what the folder stores.
    """

    chunks: Annotated[int, Meta(ge=0, le=10**9)]
    strings: Count
    immediate_nbytes: Count
    stored_digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

    @property
    def n_rows(self) -> dict[str, int]:
        """The further tables that chunks of formulas make, of which nobody has counted the rows."""
        return dict.fromkeys(COMPRESSED_TABLES, 0)


AnyManifest = Manifest | CompressedManifest


def read_manifest(folder: Path, prefix: bool) -> AnyManifest | None:
    """The manifest in *folder*; None where there is none, and *prefix* says that the log may have been cut off.

    Raises LogError for no manifest otherwise, and for one of another format.
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
