"""The manifest of a log in a folder: how many chunks and rows its files hold, and their digest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from kb_dataexec.files import decode_json
from kb_dataexec.log.folder_files import FORMULA_TABLES, MANIFEST, VERSION_OF_ROWS, read_part
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import LOG_FORMAT, LOG_FORMAT_VERSION, LogError


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


class FormulasManifest(Stamp, frozen=True, kw_only=True):
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
        return dict.fromkeys(FORMULA_TABLES, 0)


AnyManifest = Manifest | FormulasManifest


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
    kind: type[AnyManifest] = Manifest if stamp.version <= VERSION_OF_ROWS else FormulasManifest
    return decode_json(text, kind, str(path), LogError)
