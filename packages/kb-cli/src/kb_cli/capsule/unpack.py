"""Opens a capsule, which may be damaged or hostile: safe names, bounded sizes, and no code of it is run."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final

from kb_cli.run.base.files import BENCH, BESIDE, INPUTS, RUN, TOPOLOGY, RunFolderError
from kb_cli.run.records.manifest_check import UNCLAIMED
from kb_cli.run.records.run_json import FileClaim, RunJson, read_packed_run
from kb_dataexec.files import open_regular, writing

MOST_NBYTES = 16 << 30
"""The most bytes of all files of a capsule, unpacked. Source: assumed; logs of the largest runs have some GiB."""
MOST_FILES = 100_000
"""The most files. Source: assumed; a log has a file for each table and some millions of records."""
_MOST_RUN_NBYTES: Final = 16 << 20
"""The most bytes of run.json, whose Python objects may take 50 times as much. Source: 99,000 files make 14 MB."""
_MOST_DIRECTORY_NBYTES: Final = 32 << 20
"""The most bytes of the list of files, which zipfile reads at once. Source: 100,000 entries of 46 bytes and a name
of 200."""
_REPLAYED: Final = (BENCH, TOPOLOGY)
_REPLAYED_BELOW: Final = (f"{INPUTS}/", f"{BESIDE}/")
_BLOCK = 1 << 20
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, UnicodeError, ValueError,
    OverflowError, LookupError,
)  # fmt: skip
"""The exceptions of `zipfile` for bytes that are no zip, or a zip of another kind. Source: its documentation, and
trials."""


class OpenCapsule:
    """An open capsule: `run` is its run.json. No other file of it has been read."""

    def __init__(self, path: Path, packed: zipfile.ZipFile) -> None:
        self._path, self._packed = path, packed
        self._entries = _entries(packed, path)
        with packed.open(self._entries[RUN]) as file:
            self._run_bytes = _bounded(file, _MOST_RUN_NBYTES, RUN, path)
        self.run: RunJson = read_packed_run(self._run_bytes, f"{path}: {RUN}")
        names = (name for name in self._entries if name not in UNCLAIMED and name not in self.run.files)
        if unknown := next(names, None):
            raise RunFolderError(str(path), f"a file {unknown}", f"only files that its {RUN} claims")

    @property
    def replayed_nbytes(self) -> int:
        """The bytes of the files that `unpack` writes for a replay, as run.json claims them."""
        return sum(claim.nbytes for name, claim in self.run.files.items() if _is_replayed(name))

    def unpack(self, folder: Path, is_replay: bool = False) -> None:
        """Writes the files into *folder*, which is empty: all of them, or with *is_replay* the files that a replay
        reads.

        All files are compared with run.json. Raises RunFolderError for other bytes, or more of them than claimed.
        """
        with _telling(self._path):
            with writing(folder / RUN):
                (folder / RUN).write_bytes(self._run_bytes)
            for name, entry in self._entries.items():
                if name not in UNCLAIMED:
                    is_written = not is_replay or _is_replayed(name)
                    self._copy(entry, folder / name if is_written else None, self.run.files[name])
        wanted = self.run.files if is_replay else ()
        if lacking := next((name for name in wanted if _is_replayed(name) and name not in self._entries), None):
            raise RunFolderError(str(self._path), f"no {lacking}, which its {RUN} claims", "a file that kb pack wrote")

    def _copy(self, entry: zipfile.ZipInfo, path: Path | None, claim: FileClaim) -> None:
        """Compares *entry* with *claim*, and writes it to *path*. Stops as soon as there are more bytes than
        claimed.
        """
        left, digest = claim.nbytes, hashlib.sha256()
        with self._packed.open(entry) as file, self._created(path, entry.filename) as out:
            while left >= 0 and (block := file.read(min(_BLOCK, left + 1))):
                left -= len(block)
                digest.update(block)
                if out is not None and path is not None and left >= 0:
                    with writing(path):
                        out.write(block)
        if left or digest.hexdigest() != claim.sha256:
            got = f"other bytes in {entry.filename}"
            raise RunFolderError(str(self._path), got, f"the bytes that its {RUN} claims")

    @contextmanager
    def _created(self, path: Path | None, name: str) -> Iterator[IO[bytes] | None]:
        """Yields a new file *path*. Raises RunFolderError where there is one."""
        if path is None:
            yield None
            return
        with writing(path):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = path.open("xb")  # some file systems take names for the same that differ in case alone
            except (FileExistsError, NotADirectoryError):
                got = f"a file {name}, where another file is on this file system"
                raise RunFolderError(str(self._path), got, "names of a run folder, each once") from None
        try:
            yield file
        finally:
            with writing(path):  # the rest of the file's buffer
                file.close()


@contextmanager
def opened(capsule: Path) -> Iterator[OpenCapsule]:
    """Yields the capsule in the file *capsule*, of which run.json alone is unpacked, in memory.

    Raises RunFolderError for a file that is no capsule: no zip, names that lead out of a folder or are not in run.json,
    too many files or bytes, and a run.json that is not as the run wrote it.
    """
    with open_regular(capsule, RunFolderError) as file:
        with _telling(capsule):
            plain = _BoundedReads(io.FileIO(file.fileno(), closefd=False))
            found = OpenCapsule(capsule, zipfile.ZipFile(plain))
        yield found


def unpack(capsule: Path, folder: Path) -> RunJson:
    """Writes the files of *capsule* into *folder*, which is empty, and returns its run.json.

    Raises RunFolderError for a file that is no capsule, and for other bytes than its run.json claims.
    """
    with opened(capsule) as found:
        found.unpack(folder)
        return found.run


@contextmanager
def _telling(capsule: Path) -> Iterator[None]:
    """Turns errors of `zipfile` into RunFolderErrors that name *capsule*."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:  # of a file that cannot be written, and not of a place that is not there
            raise
        got = f"bytes that are no capsule ({error})"
        raise RunFolderError(str(capsule), got, "a file that kb pack wrote") from None
    except _BROKEN as error:
        got = f"bytes that are no capsule ({type(error).__name__}: {error})"
        raise RunFolderError(str(capsule), got, "a file that kb pack wrote") from None


def _entries(packed: zipfile.ZipFile, capsule: Path) -> dict[str, zipfile.ZipInfo]:
    """Returns the files of *packed* by name. Raises RunFolderError for names that are not safe or have one place."""
    listed = packed.infolist()
    if len(listed) > MOST_FILES:
        raise RunFolderError(str(capsule), f"{len(listed)} files", f"at most {MOST_FILES}")
    found: dict[str, zipfile.ZipInfo] = {}
    folders: set[str] = set()
    for entry in listed:
        name = entry.filename
        above = {str(each) for each in PurePosixPath(name).parents}
        folders |= above
        if not _is_safe(name) or name in found or name in folders or not above.isdisjoint(found):
            raise RunFolderError(str(capsule), f"a file called {name[:80]!r}", "names of a run folder, each once")
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RunFolderError(str(capsule), f"{name} encrypted or packed in another way", "a plain zip")
        found[name] = entry
    if RUN not in found:
        raise RunFolderError(str(capsule), f"no {RUN}", "a file that kb pack wrote")
    if sum(entry.file_size for entry in listed) > MOST_NBYTES:
        raise RunFolderError(str(capsule), "more than 16 GiB of files", "less", "pack the run without --data")
    return found


def _is_replayed(name: str) -> bool:
    return name in _REPLAYED or name.startswith(_REPLAYED_BELOW)


def _is_safe(name: str) -> bool:
    parts = PurePosixPath(name).parts
    plain = bool(parts) and name == "/".join(parts) and not name.startswith("/") and ".." not in parts
    return plain and name.isprintable() and "\\" not in name and ":" not in name and len(name) < 200


def _bounded(file: IO[bytes], most: int, name: str, capsule: Path) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise RunFolderError(str(capsule), f"more than {most} bytes in {name}", "less")
    return content


class _BoundedReads(io.BufferedReader):
    """A file from which `zipfile` cannot read a list of files that is larger than memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns the next *size* bytes. Raises ValueError for more than a capsule's list of files may have."""
        if size is not None and size > _MOST_DIRECTORY_NBYTES:
            raise ValueError(f"a list of files of {size} bytes")
        return super().read(size)
