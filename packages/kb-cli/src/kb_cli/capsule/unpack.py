"""Unpacks a capsule, which may be damaged or hostile: safe names, bounded sizes, and no code of it is run."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from kb_cli.run.claims import UNCLAIMED, holds
from kb_cli.run.files import RUN, RunFolderError
from kb_cli.run.run_json import FileClaim, RunJson, read_one_run
from kb_dataexec.files import open_regular, writing

MOST_NBYTES = 16 << 30
"""Of all files of a capsule together, unpacked. Source: assumed; logs of the largest runs have some GiB."""
MOST_FILES = 100_000
"""Source: assumed; a log has a file for each table and some millions of records."""
_MOST_RUN_NBYTES = 64 << 20
_BLOCK = 1 << 20
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, UnicodeError, ValueError,
    OverflowError, LookupError,
)  # fmt: skip
"""What `zipfile` raises for bytes that are no zip, or a zip of another kind. Source: its documentation, and trials."""


def unpack(capsule: Path, folder: Path) -> RunJson:
    """Write the files of *capsule* into *folder*, which is empty, and check them against run.json there.

    Raises RunFolderError for what is no capsule: no zip, names that lead out of *folder* or are not in run.json, more
    bytes than run.json claims, other bytes, or too many of them.
    """
    with open_regular(capsule, RunFolderError) as file:
        try:
            with zipfile.ZipFile(file) as packed:
                entries = _entries(packed, capsule)
                run = _read_claims(packed, entries, capsule, folder)
                for name, entry in entries.items():
                    if name != RUN:
                        _write(packed, entry, folder / name, run.files[name], capsule)
        except OSError as error:
            if error.filename is not None:  # of a file that cannot be written, and not of a place that is not there
                raise
            raise RunFolderError(
                str(capsule), f"bytes that are no capsule ({error})", "a file that kb pack wrote"
            ) from None
        except _BROKEN as error:
            got = f"bytes that are no capsule ({type(error).__name__}: {error})"
            raise RunFolderError(str(capsule), got, "a file that kb pack wrote") from None
    return run


def _entries(packed: zipfile.ZipFile, capsule: Path) -> dict[str, zipfile.ZipInfo]:
    """The files of *packed* by name. Raises RunFolderError for a name that is not safe or stands twice."""
    listed = packed.infolist()
    if len(listed) > MOST_FILES:
        raise RunFolderError(str(capsule), f"{len(listed)} files", f"at most {MOST_FILES}")
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in listed:
        name = entry.filename
        if not _is_safe(name) or name in found:
            raise RunFolderError(str(capsule), f"a file called {name[:80]!r}", "names of a run folder, each once")
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RunFolderError(str(capsule), f"{name} encrypted or packed in another way", "a plain zip")
        found[name] = entry
    if RUN not in found:
        raise RunFolderError(str(capsule), f"no {RUN}", "a file that kb pack wrote")
    if sum(entry.file_size for entry in listed) > MOST_NBYTES:
        raise RunFolderError(str(capsule), "more than 16 GiB of files", "less", "pack the run without --data")
    return found


def _is_safe(name: str) -> bool:
    parts = PurePosixPath(name).parts
    plain = bool(parts) and name == "/".join(parts) and not name.startswith("/") and ".." not in parts
    return plain and name.isprintable() and "\\" not in name and ":" not in name and len(name) < 200


def _read_claims(packed: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo], capsule: Path, folder: Path) -> RunJson:
    """Unpack run.json and read it. Raises RunFolderError for one that is none, and for files that it does not claim."""
    with packed.open(entries[RUN]) as file:
        content = _bounded(file, _MOST_RUN_NBYTES, RUN, capsule)
    with writing(folder / RUN):
        (folder / RUN).write_bytes(content)
    run = read_one_run(folder)
    if unknown := next((name for name in entries if name not in UNCLAIMED and name not in run.files), None):
        raise RunFolderError(str(capsule), f"a file {unknown}", f"only files that its {RUN} claims")
    return run


def _write(packed: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, claim: FileClaim, capsule: Path) -> None:
    """Unpack *entry* to *path*. Raises RunFolderError as soon as there are more bytes than *claim* says."""
    left = claim.nbytes
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)  # some file systems take names for the same that differ in case alone
        except (FileExistsError, NotADirectoryError):
            got = f"a file {entry.filename}, where another file is on this file system"
            raise RunFolderError(str(capsule), got, "names of a run folder, each once") from None
    with packed.open(entry) as file, path.open("wb") as out:
        while block := file.read(min(_BLOCK, left + 1)):
            left -= len(block)
            if left < 0:
                break
            with writing(path):
                out.write(block)
    folder = path.parents[len(PurePosixPath(entry.filename).parts) - 1]
    if left or not holds(folder, entry.filename, claim):
        raise RunFolderError(str(capsule), f"other bytes in {entry.filename}", f"those that its {RUN} claims")


def _bounded(file: IO[bytes], most: int, name: str, capsule: Path) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise RunFolderError(str(capsule), f"more than {most} bytes in {name}", "less")
    return content
