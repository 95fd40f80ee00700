"""One point to simulate, as a message to another process, and its answer. Any process that has kb can do the job."""

from __future__ import annotations

import gc
import os
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec
from msgspec import UNSET, Struct, UnsetType

from kb_cli.benchmark import bundled
from kb_cli.benchmark.code.local_imports import import_from
from kb_cli.benchmark.load import LoadedBenchmark, load_source
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import build_params
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.base.result import Roofline, RunResult, Traffic
from kb_cli.run.base.workload_result import alike_ops
from kb_cli.run.saving.keep import NO_FOLDER
from kb_cli.run.saving.outcome_result import make_result
from kb_cli.run.simulation.simulate import simulate
from kb_messages import KbError
from kb_topology import Topology, loads_topology

_PLACES: list[TemporaryDirectory[str]] = []
"""Folders of benchmarks, deleted when the process ends: a kernel may import files when it runs."""


class Job(Struct, frozen=True, kw_only=True):
    """A point. `chip` is the text of the topology file, and `params` are texts as `-p` takes them.

    A bundled benchmark is run from the installed file. Any other one is run from `source`, as if it stood in `bench`,
    with the files `beside` it by their paths there.
    """

    key: str
    bench: str
    source: bytes
    beside: dict[str, bytes]
    topology: str
    chip: str
    params: dict[str, str]
    seed: int
    verify: bool


class PointModel(Struct, frozen=True, kw_only=True):
    """The model of a point: `items` of `unit` in one pass, its floor (None for none), and its costliest op.

    `op_share` (0 to 1) is the part of the kernels of the model that the op `op` takes, with the ops that are alike.
    """

    phase: str
    items: int
    unit: str
    floor_ps: int | None
    op: str
    op_share: float


class PointResult(Struct, frozen=True, kw_only=True):
    """The result of a point, as fields of a run's result. `memory_share` is the used share of the memory's bandwidth.

    `verified` and `max_abs_err` are None where the point was not verified. With `model`, `latency_ps` is the time of
    the whole model, gaps included, and `flops` are its operations; the model has no `memory_share`.
    """

    topology: str
    latency_ps: int
    flops: int
    achieved_flops: float
    peak_flops: float | None
    memory_share: float | None
    utilization: dict[str, float]
    bytes: dict[str, Traffic]
    bounded_by: str
    verified: bool | None
    max_abs_err: float | None
    model: PointModel | UnsetType = UNSET


class Answer(Struct, frozen=True, kw_only=True):
    """The result of a job, or its error. `lasts` says that another try would give the same.

    `wall_s` are seconds on the machine that did the job.
    """

    key: str
    wall_s: float
    result: PointResult | None = None
    error: str = ""
    lasts: bool = True


def do(job: Job) -> Answer:
    """Simulates *job* in this process. Prints of its benchmark are dropped, because many points would print them."""
    began = perf_counter()
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            found = Answer(key=job.key, wall_s=0.0, result=_simulated(job))
        except KbError as error:
            found = Answer(key=job.key, wall_s=0.0, error=str(error), lasts=not _is_of_machine(error))
        except (MemoryError, OSError) as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            found = Answer(key=job.key, wall_s=0.0, error=said, lasts=False)
        except Exception as error:  # noqa: BLE001 -- one point's failure ends no sweep
            said = f"kb failed ({type(error).__name__}: {error}); kb run shows more"
            found = Answer(key=job.key, wall_s=0.0, error=said, lasts=False)
        finally:
            gc.collect()  # an engine is full of reference cycles, which keep the memories of its chip alive
    return msgspec.structs.replace(found, wall_s=perf_counter() - began)


def _is_of_machine(error: BaseException) -> bool:
    """Whether *error* came of a lack of memory or of a file, which another machine or another day may have."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # an author may make an error its own cause
        if isinstance(cause, MemoryError | OSError):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def _simulated(job: Job) -> PointResult:
    loaded = _loaded(job)
    params = build_params(loaded.bench.Params, job.params)
    chip = _chip(job.chip, job.topology)
    setup = Setup(loaded, params, chip, job.seed, verify=job.verify, log=job.verify, rules=False)  # a point has none
    with RunProgress() as progress:
        outcome = simulate(setup, None, progress)
    result = make_result(setup, outcome, NO_FOLDER, None, None)
    return _of_model(_figures(result), result)


def _figures(result: RunResult) -> PointResult:
    roof = result.roofline
    return PointResult(
        topology=result.topology,
        latency_ps=result.latency_ps,
        flops=result.flops,
        achieved_flops=result.achieved_flops,
        peak_flops=result.peak_flops,
        memory_share=roof.memory_share if isinstance(roof, Roofline) else None,
        utilization=result.utilization,
        bytes=result.bytes,
        bounded_by=result.bounded_by,
        verified=result.verified,
        max_abs_err=result.max_abs_err,
    )


def _of_model(found: PointResult, result: RunResult) -> PointResult:
    """Returns *found* with the time and the work of the whole model of *result*; as it is for a run without one."""
    model, ops = result.model, result.workload_ops
    if isinstance(model, UnsetType) or isinstance(ops, UnsetType) or not model.total_ps:
        return found
    flops = sum(op.repeats * op.flops for op in ops)
    top = alike_ops(ops)[0]
    return msgspec.structs.replace(
        found,
        latency_ps=model.total_ps,
        flops=flops,
        achieved_flops=flops / model.total_ps * 1e12,
        memory_share=None,
        model=PointModel(
            phase=model.phase,
            items=model.items,
            unit=model.unit,
            floor_ps=model.floor_ps,
            op=top.text,
            op_share=top.model_ps / model.kernels_ps if model.kernels_ps else 0.0,
        ),
    )


def _loaded(job: Job) -> LoadedBenchmark:
    """Returns the benchmark. Its file is executed for each point, so no point sees the module state of an earlier
    one.
    """
    path = _file_of(job.bench, job.source, tuple(job.beside.items()))
    if job.beside:
        import_from(path.parent, job.beside)
    return load_source(path, job.source)


@lru_cache(maxsize=2)
def _file_of(bench: str, source: bytes, beside: tuple[tuple[str, bytes], ...]) -> Path:
    """Returns the file for *source*, made once in a process: in a folder with the files *beside* it, if there are
    any.
    """
    path = Path(bench)
    if not beside:
        return bundled.shipped(path.name, source) or path
    place = TemporaryDirectory(prefix="kb-sweep-")  # another machine has no such folder, or other files in it
    _PLACES.append(place)
    folder = Path(place.name).resolve()
    for name, content in (*beside, (path.name, source)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / path.name


@lru_cache(maxsize=4)
def _chip(text: str, path: str) -> Topology:
    """Returns the chip, which neighbouring points share when they differ by parameters alone."""
    return loads_topology(text, path)
