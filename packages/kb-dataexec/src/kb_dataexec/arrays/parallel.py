"""Splits work among as many threads as there are cores. numpy releases the interpreter lock in large operations."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from functools import cache
from typing import Final, TypeVar

import numpy as np

Item = TypeVar("Item")

WORKERS: Final = os.cpu_count() or 1
_CHUNK: Final = 1 << 14
"""Elements of a chunk. Source: assumed; operand rows of 48 bytes, and their results, stay in a cache of 2 MiB."""
_is_worker: ContextVar[bool] = ContextVar("kb_dataexec.is_worker", default=False)


def in_parallel(task: Callable[[Item], object], items: Sequence[Item]) -> None:
    """Calls *task* with each of *items*, in any order, and returns when all calls have ended.

    Each call sees the caller's context variables and ignores numpy's floating-point errors. An `in_parallel` within
    such a call runs its items one by one on its own thread. Raises the error of the first of *items* that failed.
    """
    if min(len(items), WORKERS) < 2 or _is_worker.get():
        for item in items:
            _run(task, item)
        return
    calls = [_pool().submit(copy_context().run, _work, task, item) for item in items]
    wait(calls)
    for call in calls:
        call.result()


def parts(length: int) -> list[slice]:
    """Splits range(*length*) into one part for each worker, of about equal lengths."""
    bounds = [part * length // WORKERS for part in range(WORKERS + 1)]
    return list(map(slice, bounds[:-1], bounds[1:]))


def in_chunks(task: Callable[[slice], object], length: int) -> None:
    """Calls *task*, in parallel, with slices of range(*length*) that are short enough for the cache of a core."""

    def run(part: slice) -> None:
        for low in range(part.start, part.stop, _CHUNK):
            task(slice(low, min(low + _CHUNK, part.stop)))

    in_parallel(run, parts(length) if length > _CHUNK else [slice(0, length)])


def _work(task: Callable[[Item], object], item: Item) -> None:
    _is_worker.set(True)
    _run(task, item)


def _run(task: Callable[[Item], object], item: Item) -> None:
    with np.errstate(all="ignore"):
        task(item)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, thread_name_prefix="kb-dataexec")


if hasattr(os, "register_at_fork"):  # a copy of the process has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
