"""The topologies and benchmarks that come with kb, in the wheel or in the checkout of an editable install."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from kb_messages import BenchmarkError, KbError, TopologyError
from kb_topology import did_you_mean, listing

Kind = Literal["benchmarks", "topologies"]
_SUFFIX: dict[Kind, str] = {"benchmarks": ".py", "topologies": ".yaml"}
_SINGULAR: dict[Kind, str] = {"benchmarks": "benchmark", "topologies": "topology"}
_ERROR: dict[Kind, type[KbError]] = {"benchmarks": BenchmarkError, "topologies": TopologyError}
_MOST_NAMES = 60
"""The most names that an error lists. Source: assumed; a few lines of a terminal."""


def folder(kind: Kind) -> Path:
    """Returns the folder of the bundled files of *kind*."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_bundled" / kind
    return installed if installed.is_dir() else package.parents[3] / kind


def names(kind: Kind) -> list[str]:
    """Returns the names of the bundled files of *kind*: paths below `folder(kind)`, without suffix."""
    root, suffix = folder(kind), _SUFFIX[kind]
    pattern = f"*{suffix}" if kind == "benchmarks" else f"**/*{suffix}"
    return sorted(path.relative_to(root).as_posix().removesuffix(suffix) for path in root.glob(pattern))


def benchmark(file: str) -> Path | None:
    """Returns the path of the bundled benchmark called *file*, such as `gemm.py`; None if there is none."""
    path = folder("benchmarks") / file
    known = file.removesuffix(_SUFFIX["benchmarks"]) in names("benchmarks") and path.name == file
    return path if known and path.is_file() else None


def shipped(file: str, source: bytes) -> Path | None:
    """Returns the path of the bundled benchmark called *file*, if it has exactly the bytes *source*; otherwise None."""
    path = benchmark(file)
    return path if path is not None and path.read_bytes() == source else None


def topology(text: str) -> Path:
    """Returns the file of the chip that a user names by *text*. Other packages of kernbench call it by entry point."""
    return find("topologies", text)


def find(kind: Kind, text: str, others: Iterable[str] = ()) -> Path:
    """Returns the file that a user names by *text*: a bundled name, or a path. A path has a suffix or a separator.

    Errors list *others* too. Raises BenchmarkError or TopologyError when there is no such name or file, and for `-`,
    which names standard input.
    """
    known = names(kind)
    if text == "-":
        what = _SINGULAR[kind]
        raise _ERROR[kind](f"{what} '-'", "standard input", f"a name or a file, because no {what} is read from there")
    if text in known:
        return folder(kind) / f"{text}{_SUFFIX[kind]}"
    if "/" in text or "\\" in text or Path(text).suffix or Path(text).is_dir():
        path = Path(text)
        if not path.exists():
            near = did_you_mean(path.stem, [*known, *others])
            raise _ERROR[kind](text, "no such file", f"a {_SINGULAR[kind]} file or a bundled name", near)
        return path
    every = [*known, *others]
    fix = did_you_mean(text, every) or f"a file of your own is named with its suffix, {text}{_SUFFIX[kind]}"
    needs = f"one of {listing(every, _MOST_NAMES)}, or a file"
    raise _ERROR[kind](f"{_SINGULAR[kind]} {text!r}", "an unknown name", needs, fix)
