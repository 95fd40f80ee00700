"""Processes of this machine that do jobs. A process that dies costs its job another try, and loses nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from threading import Thread
from typing import Any

from kb_cli.sweep.job import Answer, Job, do

TRIES = 2
"""The number of processes that try a job before its point is given up: some jobs kill every process."""
_AHEAD = 2
"""The jobs that are handed out for each process: one is done, and one waits."""


def answers_of_processes(jobs: Sequence[Job], processes: int) -> Iterator[Answer]:
    """Yields the answers to *jobs* by *processes* new processes, in the order in which the answers come.

    With one process, this process does the jobs itself. Leaving the iterator early ends the processes.
    """
    if processes == 1:
        yield from map(do, jobs)
        return
    left = list(reversed(jobs))
    suspects: list[Job] = []
    while left:
        yield from _until_broken(left, suspects, processes)
        while suspects:
            yield _alone(suspects.pop())


def _until_broken(left: list[Job], suspects: list[Job], processes: int) -> Iterator[Answer]:
    """Does jobs from the end of *left*. When a process dies, jobs that were handed out become *suspects*."""
    waiting: dict[Future[Answer], Job] = {}
    with _pool(min(processes, len(left))) as pool:
        try:
            while left or waiting:
                while left and len(waiting) < _AHEAD * processes:
                    waiting[_submitted(pool, left[-1])] = left[-1]
                    left.pop()
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=list(waiting).index):
                    answer = future.result()
                    del waiting[future]
                    yield answer
        except BrokenProcessPool:
            suspects.extend(waiting.values())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _alone(job: Job) -> Answer:
    """Returns the answer to *job* by a process that does nothing else, so that no other job is blamed when the
    process dies.
    """
    for _ in range(TRIES - 1):
        with _pool(1) as pool:
            try:
                return _submitted(pool, job).result()
            except BrokenProcessPool:
                continue
    said = f"a process that died in each of {TRIES} tries, perhaps for want of memory"
    return Answer(key=job.key, wall_s=0.0, error=f"got {said}; kb run of this point shows more", lasts=False)


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin)


def _submitted(pool: ProcessPoolExecutor, job: Job) -> Future[Answer]:
    """Returns the future answer of *pool* to *job*, for which the pool may start a process.

    The process inherits a blocked Ctrl-C until `_begin` unblocks it. A process that is still importing modules would
    print a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return pool.submit(do, job)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(do, job)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Makes signals end this process without a word: Ctrl-C reaches all processes, and only the first one informs the
    user.

    A process also ends when the first process was killed.
    """
    signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGTERM, _end)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end(number: int, frame: Any) -> None:
    os._exit(128 + number)
