"""The roofline of a run: peaks by dtype, bandwidths of memories, and points for the run, its launches and its lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, UnsetType

from kb_cli.report.data.performance import peak_share
from kb_cli.report.data.roofline_launches import launch_points
from kb_cli.report.data.roofline_points import PORT, RooflinePoint, SharedBytes, line_points, product_dtypes
from kb_cli.report.data.run_source import RunSource
from kb_cli.run.observe.metrics import math_flops, peak_flops
from kb_engine import Engine
from kb_messages import DType, KbError


class DTypePeak(Struct, frozen=True, kw_only=True):
    """The operations a second of the whole chip for operands of each of `dtypes`."""

    dtypes: list[str]
    flops: float


class RooflineChart(Struct, frozen=True, kw_only=True):
    """Peaks by dtype, GB/s by memory space (`reg` stands for the TCM ports), and points: the run, its launches, its
    lines.

    `peaks` are the peaks of the dtypes that the run used, and of all dtypes where that is not known. `math_flops` is
    the rate of all math units, an element of a function for each lane and cycle.
    """

    peaks: list[DTypePeak]
    bandwidth_gbs: dict[str, float]
    points: list[RooflinePoint]
    math_flops: float | None = None

    @property
    def used_spaces(self) -> list[str]:
        """The memory spaces of which a point moved bytes."""
        return [space for space in self.bandwidth_gbs if any(point.nbytes.get(space) for point in self.points)]


def roofline_chart(source: RunSource) -> tuple[RooflineChart, list[str]]:
    """Returns the roofline, and notes: one when the chip cannot be built here."""
    results = source.run.results
    peaks, notes, math = list[DTypePeak](), list[str](), None
    try:
        engine = Engine(source.chip)
        peaks, math = _peaks(engine, _dtypes(source)), math_flops(engine)
    except KbError as error:  # a chip whose blocks are not installed here
        notes.append(f"{source.folder}: got no peaks by dtype: {error}")
        dtype = results.params.get("dtype")
        if results.peak_flops:
            peaks = [DTypePeak(dtypes=[str(dtype)], flops=results.peak_flops)]
    nbytes = {space: moved.read + moved.write for space, moved in results.bytes.items() if space != "tcm"}
    flops = results.flops if peak_share(results) is not None or not results.peak_flops else results.gemm_flops
    run = RooflinePoint(line="", flops=flops, ps=results.latency_ps, nbytes=nbytes)
    points, shared = [run], {space: SharedBytes(*found) for space, found in _shared(source, nbytes)}
    if source.log is not None:
        ops = () if isinstance(results.workload_ops, UnsetType) else results.workload_ops
        points += [*launch_points(source.log, ops, shared), *line_points(source.log, shared)]
    return RooflineChart(peaks=peaks, bandwidth_gbs=results.bandwidth_gbs, points=points, math_flops=math), notes


def _dtypes(source: RunSource) -> set[DType]:
    """Returns the dtypes of the products of the run; else the parameter `dtype`; else none, which stands for all."""
    found = set[DType]() if source.log is None or not source.log.n_ops else product_dtypes(source.log)
    stated = source.run.results.params.get("dtype")
    return found or ({DType(stated)} if isinstance(stated, str) and stated in set(DType) else found)


def _shared(source: RunSource, nbytes: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yields (space, (kind of memory, bytes of the run)) of spaces behind caches; of all on a chip with multicast."""
    has_multicast = not isinstance(source.chip.spec.multicast, UnsetType)
    for space in nbytes:
        cache = f"{space} cache"
        if cache in nbytes:
            yield space, (cache, nbytes[cache])
        elif has_multicast and space != PORT:
            yield space, (space, nbytes[space])


def _peaks(engine: Engine, dtypes: set[DType]) -> list[DTypePeak]:
    """Returns the peak of each of *dtypes*, or of every dtype for no dtypes, for which a block states one, the highest
    first. Equal peaks stand together.
    """
    found: dict[float, list[str]] = {}
    for dtype in (each for each in DType if each in dtypes or not dtypes):
        peak = peak_flops(engine, dtype)
        if peak:
            found.setdefault(peak, []).append(dtype.value)
    return [DTypePeak(dtypes=dtypes, flops=flops) for flops, dtypes in sorted(found.items(), reverse=True)]
