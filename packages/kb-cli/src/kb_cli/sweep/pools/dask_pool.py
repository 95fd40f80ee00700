"""Workers of a Dask cluster that do jobs. The scheduler gives the jobs of a worker that died to other workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from importlib import import_module
from importlib.metadata import version
from typing import Any

from kb_cli.sweep.job import Answer, Job, do
from kb_cli.sweep.point_store import code_digest
from kb_cli.sweep.pools.local_pool import TRIES
from kb_cli.terminal.status_line import StatusLine
from kb_messages import KbError

_AHEAD = 4
"""The jobs that are handed out for each worker, so that no worker waits for this process."""


def answers_of_dask(jobs: Sequence[Job], address: str, wait_s: int) -> Iterator[Answer]:
    """Yields the answers to *jobs* by the workers of the scheduler at *address*, in the order in which the answers
    come.

    Raises KbError without the extra, without an answer of the scheduler in *wait_s* seconds, without a worker there,
    when the scheduler goes away, and for workers that run other code than this process or several jobs in one process.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        fix = "pip install 'kb-cli[dask]'"
        raise KbError("--scheduler", "no module distributed", "the extra dask", fix) from None
    client = _connected(distributed, address, wait_s)
    with client:
        _check_workers(client, address)
        left = iter(jobs)
        by_future: dict[Any, Job] = {}

        def submitted(job: Job) -> Any:
            future = client.submit(do, job, key=f"kb-{job.key}", pure=False, retries=TRIES - 1)
            by_future[future.key] = job
            return future

        first = [submitted(job) for _, job in zip(range(_AHEAD * len(client.nthreads())), left, strict=False)]
        running = distributed.as_completed(first, loop=client.loop)
        for future in running:
            job = by_future.pop(future.key)
            yield _answer(future, job, address)
            future.release()
            if (following := next(left, None)) is not None:
                running.add(submitted(following))


def _connected(distributed: Any, address: str, wait_s: int) -> Any:
    """Returns a client of the scheduler at *address*. Dask retries until *wait_s* is over: a scheduler may just
    start.
    """
    status = StatusLine()
    status.show([f"sweep: waiting for the scheduler at {address}", f"{wait_s} s at most"])
    try:
        asyncio.run(_reach(distributed, address, wait_s))
        return distributed.Client(address, timeout=wait_s, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        fix = (
            "start one with dask scheduler, and workers with dask worker ADDRESS --nthreads 1; "
            "--scheduler-wait SECONDS waits longer for one that is starting"
        )
        needs = "the address of a Dask scheduler, like tcp://HOST:8786"
        said = f"no answer ({error})" if str(error) else "an answer of another program"
        raise KbError(f"--scheduler {address}", said, needs, fix) from None
    finally:
        status.clear()


async def _reach(distributed: Any, address: str, wait_s: int) -> None:
    """Connects to *address*, and disconnects. A client that cannot connect prints a traceback when it is deleted."""
    security = distributed.Security().get_connection_args("client")
    comm = import_module("distributed.comm")
    connected = comm.connect(comm.normalize_address(address), timeout=wait_s, **security)
    (await asyncio.wait_for(connected, wait_s + 1)).abort()  # Dask waits for ever where another program answers


def _answer(future: Any, job: Job, address: str) -> Answer:
    try:
        error = future.exception()
        if error is None:
            found: Answer = future.result()
            return found
    except CancelledError:
        fix = "start a scheduler, and give the same command again: points that were simulated are known"
        raise KbError(
            f"--scheduler {address}", "a connection that was lost", "a scheduler that stays until the end", fix
        ) from None
    return Answer(key=job.key, wall_s=0.0, error=f"got no answer of the cluster: {error}", lasts=False)


def _check_workers(client: Any, address: str) -> None:
    threads = client.nthreads()
    where = f"--scheduler {address}"
    if not threads:
        raise KbError(where, "no workers", "at least one", f"start one with dask worker {address} --nthreads 1")
    if many := {worker: count for worker, count in threads.items() if count != 1}:
        worker, count = next(iter(many.items()))
        fix = "start workers with --nthreads 1, and as many of them as there are cores"
        raise KbError(where, f"{count} threads in worker {worker}", "one thread a worker", fix)
    here = (version("kb-cli"), code_digest())
    for worker, there in client.run(_code).items():
        if tuple(there) != here:
            raise KbError(where, f"other code of kernbench or its blocks on {worker}", "that of this machine")


def _code() -> tuple[str, str]:
    return version("kb-cli"), code_digest()
