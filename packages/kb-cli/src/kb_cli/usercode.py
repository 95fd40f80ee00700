"""Running code of a benchmark's author, and telling the author what it raised by the author's own frames."""

from __future__ import annotations

import linecache
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import kb_cli
import kb_components
import kb_dataexec
import kb_engine
import kb_messages
import kb_plans
import kb_topology
from kb_messages.errors import BenchmarkError, KbError

_PACKAGES = (kb_messages, kb_topology, kb_plans, kb_dataexec, kb_engine, kb_components, kb_cli)


class UserCodeError(BenchmarkError):
    """What a benchmark's own code raised; the text shows the frames of its author's files alone."""

    def __init__(self, where: str, got: str, needs: str, fix: str = "", frames: str = "") -> None:
        super().__init__(where, got, needs, fix)
        self.args = (where, got, needs, fix, frames)
        self.frames = frames

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.frames}".rstrip()


@contextmanager
def user_code(file: Path, what: str) -> Iterator[None]:
    """Run *what* of the benchmark *file*; an exception it raises becomes one that shows its own frames.

    A KbError passes as it is.
    """
    try:
        yield
    except KbError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a benchmark raises is its author's to see
        raise _told(error, file, what) from None


def _told(error: BaseException, file: Path, what: str) -> UserCodeError:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_authors(Path(frame.filename), file)]
    linecache.checkcache()
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else file.name
    shown = "".join(traceback.format_list(frames)).rstrip()
    got = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return UserCodeError(where, got, f"{what} to succeed", "see the frames below" if shown else "", shown)


@cache
def _not_authors() -> tuple[Path, ...]:
    """Folders of kb's packages, the standard library and whatever is installed."""
    own = [Path(str(package.__file__)).parent for package in _PACKAGES]
    return (*own, *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")))


def _is_authors(path: Path, file: Path) -> bool:
    """Whether *path* belongs to the author of the benchmark *file*: beside it, or in no folder of anybody else."""
    if path.parent == file.parent:
        return True
    return path.is_file() and not any(path.is_relative_to(folder) for folder in _not_authors())
