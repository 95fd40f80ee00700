"""A run folder in the making: written under a hidden name, and renamed when it is complete."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from kb_cli.run.base.files import LOG, MEMORY, RunFolderError
from kb_cli.run.base.folder_owner import is_gone, owner
from kb_cli.run.folders.atomic_exchange import exchange
from kb_dataexec.files import writing
from kb_messages import SimulationStuckError

INTERRUPTED = "-interrupted"
"""The end of the name of a folder whose run was interrupted or stuck."""


class RunInTheMaking(NamedTuple):
    """The hidden folder of a run that will be called `name`. `is_dead` says that its process is gone."""

    path: Path
    name: str
    is_dead: bool


class NewRunFolder:
    """A new run folder: the caller writes to `path`, and `commit` gives the folder the name *final*.

    A folder that has the name is replaced, unless it has the data of a run that the new folder lacks. Leaving the
    `with` block without `commit` deletes the folder, and those folders around it that were not there before and are
    empty. When two processes commit to one name, each folder is whole and the last one stays. A relative *out* is
    resolved at once, because the code of a benchmark may change the working directory.

    A killed process cannot delete its folder, so the hidden name states the process. The next process that makes a
    folder below *out* deletes the folders of processes that are gone.
    """

    def __init__(self, out: Path, name: str) -> None:
        self.final = out / name
        self._out = out.absolute()
        self._name = name
        self.path = self._out / _hidden(name, "new")
        self._committed = False
        self._made = [each for each in (self._out, *self._out.parents) if not os.path.exists(each)]

    def __enter__(self) -> NewRunFolder:
        try:
            self._make()
            take_away_stale(self._out)
        except BaseException:  # a signal may come here, before the `with` block has begun
            self._take_away()
            raise
        return self

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True)
        except (OSError, ValueError) as error:
            got = f"a folder that cannot be written ({getattr(error, 'strerror', None) or error})"
            raise RunFolderError(str(self.final.parent), got, "a folder for results", "name one with --out") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            self._take_away()

    def _take_away(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):  # another process has put something there
            for each in self._made:
                each.rmdir()

    def commit(self) -> bool:
        """Gives the folder its final name. Raises RunFolderError when a file or a link has the name.

        Returns False where a folder of that name has the data of a run that this folder lacks, as with `--keep none`.
        That folder stays, and this one is deleted. What is replaced is looked at after it was taken away, and is put
        back if it has such data, so a process that commits its data meanwhile does not lose it.

        Where two names can be exchanged in one step (Linux), the name stands at every moment for a whole folder.
        Elsewhere the old folder is renamed first. A process that is killed between these two steps leaves the old
        folder under a hidden name, and the next process that makes a folder below *out* gives it its name again.
        """
        is_committed = self._rename(self._name)
        shutil.rmtree(self._out / f"{self._name}{INTERRUPTED}", ignore_errors=True)
        return is_committed

    def commit_interrupted(self) -> Path:
        """Gives the folder the name of an interrupted run, which ends with `INTERRUPTED`, and replaces one of that
        name.

        Returns the path as the user would write it. The next complete run of *name* deletes the folder. Raises
        RunFolderError when a file or a link has the name.
        """
        self._rename(f"{self._name}{INTERRUPTED}")
        return self.final.with_name(f"{self._name}{INTERRUPTED}")

    def _rename(self, name: str) -> bool:
        """Gives the folder the name *name*. Returns False where a folder with data that this one lacks keeps it."""
        final = self._out / name
        placed, data = self.path, _data_in(self.path)
        if not (is_left := bool(_data_in(final) - data)):
            with writing(final):
                while True:
                    taken = self._take(placed, final)
                    if taken is not None and not (_data_in(taken) - data):
                        shutil.rmtree(taken, ignore_errors=True)
                        break
                    if taken is not None:  # another process has committed its data meanwhile, and gets the name back
                        placed, data, is_left = taken, _data_in(taken), True
        shutil.rmtree(self.path, ignore_errors=True)
        self._committed = True
        return not is_left

    def _take(self, path: Path, final: Path) -> Path | None:
        """Tries once to rename *path* to *final*.

        Returns the path of the folder that had the name, where nothing lies if nothing had it. A folder with data that
        *path* lacks may be returned without a folder in its place. Returns None when another process made or took away
        *final* meanwhile.
        """
        try:
            os.rename(path, final)  # succeeds where nothing has the name, or an empty folder
            return path
        except OSError:
            if final.is_symlink() or (final.exists() and not final.is_dir()):
                got = f"{'a link' if final.is_symlink() else 'a file'} of that name"
                raise RunFolderError(str(self.final.with_name(final.name)), got, "a folder or nothing") from None
            if not (final.exists() and path.exists()):
                raise
        try:
            if exchange(path, final):
                return path
            old = self._out / _hidden(final.name, "old")
            os.rename(final, old)
        except FileNotFoundError:  # another process was faster
            return None
        if _data_in(old) - _data_in(path):
            return old
        try:
            os.rename(path, final)
        except OSError:
            if not final.exists():
                os.rename(old, final)
                raise
            shutil.rmtree(old, ignore_errors=True)  # another process was faster
            return None
        return old


def _data_in(folder: Path) -> set[str]:
    """Returns the places in *folder*, a folder of one run or of several, at which data or the whole log of a run
    lies.
    """
    names = (MEMORY, f"{LOG}/manifest.json")  # the log of an interrupted run has no manifest
    patterns = (pattern for name in names for pattern in (name, f"*/{name}"))
    return {str(each.relative_to(folder)) for pattern in patterns for each in folder.glob(pattern)}


def take_away_stale(out: Path) -> None:
    """Deletes the hidden folders that killed processes left in *out*. A replaced folder without its successor is
    restored.
    """
    for path in _stale_folders(out):
        if (name := _lost_name(path)) is not None:
            try:
                os.rename(path, out / name)
                continue
            except OSError:  # another process was faster
                pass
        shutil.rmtree(path, ignore_errors=True)


def in_the_making(out: Path) -> list[RunInTheMaking]:
    """Returns the hidden folders of runs below *out* that go on, or whose process was killed, by name."""
    try:
        names = sorted(entry.name for entry in os.scandir(out) if entry.is_dir(follow_symlinks=False))
    except OSError:  # a folder that may be written, but not listed
        return []
    found = []
    for name in names:
        final, _, rest = name[1:].rpartition(".")
        made_by, _, what = rest.rpartition("-")
        if name[0] == "." and final and what == "new":
            found.append(RunInTheMaking(out / name, final, is_gone(made_by.rpartition("-")[0])))
    return found


def left_by_killed(out: Path) -> list[Path]:
    """Returns the hidden folders that `take_away_stale` would delete, by name."""
    return sorted(path for path in _stale_folders(out) if _lost_name(path) is None)


def _stale_folders(out: Path) -> list[Path]:
    try:
        with os.scandir(out) as entries:
            return [Path(entry.path) for entry in entries if _is_stale(entry)]
    except OSError:  # a folder that may be written, but not listed
        return []


def _lost_name(path: Path) -> str | None:
    """Returns the name that the stale folder *path* had, if no other folder has taken it."""
    name, _, rest = path.name[1:].rpartition(".")
    return name if rest.endswith("-old") and not path.with_name(name).exists() else None


def _is_stale(entry: os.DirEntry[str]) -> bool:
    made_by = entry.name.rpartition(".")[2].rpartition("-")[0].rpartition("-")[0]
    return entry.name.startswith(".") and entry.is_dir(follow_symlinks=False) and is_gone(made_by)


def _hidden(name: str, what: str) -> str:
    return f".{name}.{owner()}-{secrets.token_hex(4)}-{what}"


_CHUNKS: Final = ("ops-*.npy", "formulas-*.z")
"""Patterns of the files that prove that a log has records."""


@contextmanager
def kept_on_interrupt(folder: NewRunFolder) -> Iterator[None]:
    """Keeps the folder of a run that is interrupted or stuck, under the name of an interrupted run.

    The error gets a note with the name. A folder is kept only if its log has records, because nothing else of it can be
    read. SIGTERM raises a class of its own, and keeps nothing.
    """
    try:
        yield
    except (KeyboardInterrupt, SimulationStuckError) as error:
        chunks = (found for log in (LOG, f"*/{LOG}") for each in _CHUNKS for found in folder.path.glob(f"{log}/{each}"))
        has_records = any(chunks)
        if type(error) in (KeyboardInterrupt, SimulationStuckError) and has_records:
            error.add_note(f"the files written so far are in {folder.commit_interrupted()}")
        raise
