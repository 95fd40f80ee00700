"""`triton.runtime.cache`: files that host code keeps between runs. Nothing that is compiled lies there."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kb_dataexec.files import json_decoder
from kb_messages import KbError, read_bytes

_decode_group: Final = json_decoder(dict[str, dict[str, str]])


def default_cache_dir() -> str:
    """Returns TRITON_CACHE_DIR, or the folder `.triton/cache` of TRITON_HOME or of the user."""
    return _folder("TRITON_CACHE_DIR", "cache")


def default_dump_dir() -> str:
    """Returns TRITON_DUMP_DIR, or the folder `.triton/dump` of TRITON_HOME or of the user."""
    return _folder("TRITON_DUMP_DIR", "dump")


def default_override_dir() -> str:
    """Returns TRITON_OVERRIDE_DIR, or the folder `.triton/override` of TRITON_HOME or of the user."""
    return _folder("TRITON_OVERRIDE_DIR", "override")


def _folder(variable: str, name: str) -> str:
    return os.environ.get(variable) or str(Path(os.environ.get("TRITON_HOME") or Path.home()) / ".triton" / name)


class CacheManager:
    """The base of classes that keep files of host code under a *key*."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key


class FileCacheManager(CacheManager):
    """Keeps files in the folder *key* of the cache; with *dump* or *override*, in that of the folder of that name."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override, dump)
        above = default_dump_dir() if dump else default_override_dir() if override else default_cache_dir()
        self.cache_dir = str(Path(above) / key)
        if not override:
            Path(self.cache_dir).mkdir(parents=True, exist_ok=True)

    def _place(self, filename: str) -> Path:
        return Path(self.cache_dir) / filename

    def has_file(self, filename: str) -> bool:
        """Whether the file is there."""
        return self._place(filename).exists()

    def get_file(self, filename: str) -> str | None:
        """Returns the path of the file; None where it is not there."""
        return str(self._place(filename)) if self.has_file(filename) else None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Writes *data*, bytes or the text of an object, and returns the path. Readers never see a part of a file."""
        given = data if isinstance(data, bytes) else str(data).encode()
        number, temporary = tempfile.mkstemp(dir=self.cache_dir)
        with os.fdopen(number, "wb") as file:
            file.write(given)
        place = self._place(filename)
        Path(temporary).replace(place)
        return str(place)

    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        """Notes that the paths of *group*, by name, belong together, and returns the path of the note."""
        return self.put(json.dumps({"child_paths": dict(group)}), f"__grp__{filename}")

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Returns the paths of a group by name; None where there is no such group, or a file of it is gone."""
        try:
            found = _decode_group(read_bytes(self._place(f"__grp__{filename}"), KbError))["child_paths"]
            return found if all(Path(each).exists() for each in found.values()) else None
        except (OSError, KbError, ValueError, KeyError):
            return None


class RemoteCacheBackend:
    """The base of classes that keep files elsewhere."""

    def __init__(self, key: str) -> None: ...


class RemoteCacheManager(CacheManager):
    """Refuses: files of a cache are kept on this machine."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        raise KbError("triton.runtime.cache", type(self).__name__, "FileCacheManager: files are kept on this machine")


def get_cache_manager(key: str) -> FileCacheManager:
    """Returns the manager of the cache of *key*, the hexadecimal digits of a hash."""
    return FileCacheManager(_short(key))


def get_dump_manager(key: str) -> FileCacheManager:
    """Returns the manager of the folder of dumps of *key*, the hexadecimal digits of a hash."""
    return FileCacheManager(_short(key), dump=True)


def get_override_manager(key: str) -> FileCacheManager:
    """Returns the manager of the folder of replaced files of *key*, the hexadecimal digits of a hash."""
    return FileCacheManager(_short(key), override=True)


def _short(key: str) -> str:
    """Returns *key* in base 32, which file systems without upper case keep apart. Raises KbError for another text."""
    try:
        return base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")
    except (ValueError, TypeError):
        raise KbError("triton.runtime.cache", repr(key), "the hexadecimal digits of a hash") from None


def triton_key() -> str:
    """Returns the sha256, in hexadecimal digits, of what stands for Triton's version in keys of caches."""
    return hashlib.sha256(b"kb_triton").hexdigest()


NAMES: dict[str, Any] = {
    each.__name__: each
    for each in (
        CacheManager, FileCacheManager, RemoteCacheBackend, RemoteCacheManager, default_cache_dir, default_dump_dir,
        default_override_dir, get_cache_manager, get_dump_manager, get_override_manager, triton_key,
    )
}  # fmt: skip
"""The names of the module that host code imports."""
