"""Opening of files that somebody else wrote. A pipe would block its reader for ever, and a link may lead anywhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from kb_messages.errors import KbError
from kb_messages.text import decode_text

MOST_NBYTES: Final = 1 << 30
"""The largest text or blob that is read whole. Source: assumed; the index of a million arrays has 200 MB."""


def open_regular(path: str | os.PathLike[str], error: type[KbError] = KbError) -> BinaryIO:
    """Opens the regular file *path* for reading.

    Raises *error* when *path* is missing, cannot be read, or is a folder, a pipe, a socket or a device.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # the open of a pipe must not wait
    except FileNotFoundError:
        raise error(os.fspath(path), "no such file", "a file") from None
    except (OSError, ValueError) as reason:
        raise error(os.fspath(path), f"a file that cannot be opened ({_said(reason)})", "a readable file") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise error(os.fspath(path), _kind(mode), "a regular file")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: str | os.PathLike[str], error: type[KbError] = KbError, most_nbytes: int = MOST_NBYTES) -> bytes:
    """All bytes of the regular file *path*.

    Raises *error* when *path* is missing, cannot be read, is no regular file, or has more than *most_nbytes*.
    """
    with open_regular(path, error) as file:
        nbytes = os.fstat(file.fileno()).st_size
        if nbytes > most_nbytes:
            raise error(os.fspath(path), f"{nbytes} bytes", f"at most {most_nbytes}")
        try:
            return file.read(most_nbytes)
        except OSError as reason:
            raise error(os.fspath(path), f"a file that cannot be read ({_said(reason)})", "a readable file") from None


def read_text(
    path: str | os.PathLike[str], needs: str, error: type[KbError] = KbError, most_nbytes: int = MOST_NBYTES
) -> str:
    """The text of the regular file *path*, which is *needs*, such as `a YAML file`. A byte order mark is left out.

    Raises *error* like `read_bytes`, and for bytes that are no UTF-8.
    """
    return decode_text(read_bytes(path, error, most_nbytes), os.fspath(path), needs, error)


def file_in(folder: Path, name: str, error: type[KbError] = KbError) -> Path:
    """The path of the file that a text inside *folder* calls *name*, which is relative to *folder*.

    Raises *error* for a name that leads out of *folder*: an absolute path, `..`, or a link on the way.
    """
    parts = PurePosixPath(name).parts
    needs = "the relative path of a file in the same folder"
    if not parts or name.startswith("/") or "\\" in name or "\0" in name or ".." in parts:
        raise error(str(folder), f"the file name {name[:200]!r}", needs)
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise error(str(path), "a link", needs)
    return path


def _said(reason: Exception) -> str:
    return reason.strerror or str(reason) if isinstance(reason, OSError) else str(reason)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
