"""Checks the files of a run folder against its manifest, run.json. No code of the folder is run."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kb_cli.run.base.files import (
    BENCH,
    CAPTURES,
    EXPECTED,
    INPUTS,
    LEVERS,
    LOG,
    MEMORY,
    RUN,
    TOPOLOGY,
    WALL,
    RunFolderError,
)
from kb_cli.run.records.run_json import FileClaim, RunJson, is_sealed
from kb_dataexec.files import file_in, open_regular

UNCLAIMED = frozenset({RUN, WALL, LEVERS})
"""The files that the manifest does not list: run.json has a hash of its own, wall times prove nothing, and levers are
measured after the run.
"""
_NEEDED = (BENCH, TOPOLOGY, f"{MEMORY}/index.json", f"{LOG}/manifest.json")
_NEEDED_TO_COMPARE = (*_NEEDED, f"{EXPECTED}/index.json")
_BLOCK = 1 << 20
_DATA = tuple(f"{part}/" for part in (MEMORY, EXPECTED, LOG, INPUTS, CAPTURES))


def claims(folder: Path) -> dict[str, FileClaim]:
    """Returns the manifest entry of every file of the run folder *folder*: its length and hash, by its path there."""
    return {name: _claim(folder / name) for name in sorted(files_of(folder)) if name not in UNCLAIMED}


def broken_claim(folder: Path, run: RunJson, compares: bool = True) -> str | None:
    """Returns the first difference between *folder* and *run*, its run.json, as a sentence; None when there is none.

    Without *compares*, the folder needs no expected outputs.
    """
    needed = _NEEDED_TO_COMPARE if compares else _NEEDED
    if missing := next((name for name in needed if name not in run.files), None):
        return f"{folder / RUN}: got no hash of {missing}, needs one of every file that the run wrote"
    if run.files[BENCH].sha256 != run.benchmark.sha256:
        return f"{folder / RUN}: got two hashes of {BENCH}, needs one"
    try:
        wrong = next((name for name, claim in run.files.items() if not holds(folder, name, claim)), None)
        strange = next((name for name in extra_files(folder, run.files) if name.startswith(_DATA)), None)
    except RunFolderError as error:
        return str(error)
    if wrong is not None:
        return f"{folder / wrong}: got other bytes than the run wrote, needs the bytes that {RUN} lists"
    return None if strange is None else f"{folder / strange}: got a file of which {RUN} says nothing, needs none"


def check_written(folder: Path, run: RunJson, names: Iterable[str]) -> None:
    """Raises RunFolderError unless run.json and the files *names* of *folder* have the bytes that the run wrote."""
    if not is_sealed(folder):
        raise RunFolderError(str(folder / RUN), "other content than the run wrote", "the run's own", "run it again")
    for name in names:
        if name not in run.files or not holds(folder, name, run.files[name]):
            raise RunFolderError(
                str(folder / name), "other bytes than the run wrote", f"the bytes that {RUN} lists", "run it again"
            )


def extra_files(folder: Path, claimed: Mapping[str, FileClaim]) -> list[str]:
    """Returns the files in *folder* that the manifest does not list, so that nothing is known of them."""
    return sorted(name for name in files_of(folder) if name not in claimed and name not in UNCLAIMED)


def files_of(folder: Path) -> Iterator[str]:
    """Yields the path in *folder* of every file there. Raises RunFolderError at a link, a pipe, a socket or a
    device.
    """
    folders = [folder]
    while folders:
        within = folders.pop()
        try:
            entries = list(os.scandir(within))
        except OSError as error:
            got = f"a folder that cannot be read ({error.strerror})"
            raise RunFolderError(str(within), got, "a readable folder") from None
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                yield Path(entry.path).relative_to(folder).as_posix()
            else:
                got = "a link" if entry.is_symlink() else "no regular file"
                raise RunFolderError(entry.path, got, "the file that the run wrote")


def holds(folder: Path, name: str, claim: FileClaim) -> bool:
    """Whether the file *name* of *folder* has the bytes of *claim*. Raises RunFolderError when it cannot be read."""
    path = file_in(folder, name, RunFolderError)
    with open_regular(path, RunFolderError) as file:
        if os.fstat(file.fileno()).st_size != claim.nbytes:
            return False
    return _claim(path) == claim


def _claim(path: Path) -> FileClaim:
    with open_regular(path, RunFolderError) as file:
        try:
            digest = hashlib.sha256()
            while block := file.read(_BLOCK):
                digest.update(block)
        except OSError as error:
            got = f"a file that cannot be read ({error.strerror})"
            raise RunFolderError(str(path), got, "a readable file") from None
        return FileClaim(nbytes=os.fstat(file.fileno()).st_size, sha256=digest.hexdigest())
