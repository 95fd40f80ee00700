"""Authors of blocks: finds out whether kernbench made a block, and from which block an error came."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Final, TypeGuard

from msgspec import Struct

from kb_engine.block.component import ComponentBase

PACKAGES: Final = (
    "kb_messages", "kb_topology", "kb_plans", "kb_dataexec", "kb_engine", "kb_components", "kb_cli", "kb_triton",
)  # fmt: skip
"""The packages of kernbench."""


class BlockEntry(Struct, frozen=True):
    """The place where a traceback enters the code of a third party's block.

    `at` is the number of the frame, `method` the class and method, and `paths` are the file or folders of the maker.
    """

    at: int
    method: str
    paths: tuple[str, ...]


def walked_frames(error: BaseException) -> list[tuple[FrameType, int]]:
    """The frames of *error* from the outside in, each with its line.

    SimPy raises the exception of a process again, as an equal exception without its frames. The cause has the frames.
    """
    walked, cause = list(traceback.walk_tb(error.__traceback__)), error.__cause__
    if cause is not None and walked and str(walked[-1][0].f_globals.get("__name__")).startswith("simpy."):
        walked += traceback.walk_tb(cause.__traceback__)
    return walked


def block_entry(walked: Sequence[tuple[FrameType, int]]) -> BlockEntry | None:
    """The first of the frames *walked*, from the outside in, that runs a method of a third party's block."""
    for at, (frame, _) in enumerate(walked):
        code = frame.f_code
        owner: type = type(frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None)
        if _is_block(owner) and is_foreign(owner):
            paths = _paths(owner)
            if code.co_filename.startswith(paths):
                return BlockEntry(at, f"{owner.__name__}.{code.co_name}", paths)
    return None


def _is_block(owner_type: type) -> TypeGuard[type[ComponentBase[Any]]]:
    """Whether *owner_type* is a class of blocks. `isinstance` would run code of its author."""
    return any(base is ComponentBase for base in owner_type.__mro__)


def is_foreign(block_type: type[ComponentBase[Any]]) -> bool:
    """Whether *block_type* is a third party's."""
    return block_type.__module__.partition(".")[0] not in PACKAGES


def last_line(trace: TracebackType | None) -> str:
    """`file:line` of the innermost frame of *trace*, without folders."""
    frame = traceback.extract_tb(trace)[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno}"


def _paths(block_type: type[ComponentBase[Any]]) -> tuple[str, ...]:
    """The folders of the package that *block_type* is in, or the file of its module if that is in no package."""
    module = sys.modules.get(block_type.__module__.partition(".")[0])
    folders = getattr(module, "__path__", None)
    if folders is not None:
        return tuple(os.path.join(folder, "") for folder in folders)
    file = getattr(module, "__file__", None)
    return (file,) if file else ()
