"""A run folder in the making: written under a hidden name, and renamed when it is complete."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from types import TracebackType

from kb_cli.run.files import RunFolderError


class NewRunFolder:
    """Write to `path`; `commit` then gives the folder the name *final*, and replaces a folder that has the name.

    Leaving the `with` block without `commit` deletes the folder. When two processes commit to the same name, each
    folder is whole and the last one stays.
    """

    def __init__(self, out: Path, name: str) -> None:
        self.final = out / name
        self.path = out / _hidden(name)
        self._committed = False

    def __enter__(self) -> NewRunFolder:
        try:
            self.path.mkdir(parents=True)
        except OSError as error:
            got = f"a folder that cannot be written ({error.strerror})"
            raise RunFolderError(str(self.final.parent), got, "a folder for results", "name one with --out") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            shutil.rmtree(self.path, ignore_errors=True)

    def commit(self) -> None:
        """Give the folder its final name. Raises RunFolderError when a file has the name."""
        while True:
            try:
                self.path.rename(self.final)
                break
            except OSError:
                if not self.final.is_dir():
                    if self.final.exists():
                        raise RunFolderError(str(self.final), "a file of that name", "a folder or nothing") from None
                    raise
                _remove(self.final)
        self._committed = True


def _remove(folder: Path) -> None:
    """Delete *folder*. The folder is renamed first, so that nobody finds it half deleted under its own name."""
    old = folder.with_name(_hidden(folder.name))
    try:
        folder.rename(old)
    except FileNotFoundError:  # another process was faster
        return
    shutil.rmtree(old, ignore_errors=True)


def _hidden(name: str) -> str:
    return f".{name}.{os.getpid()}-{secrets.token_hex(4)}"
