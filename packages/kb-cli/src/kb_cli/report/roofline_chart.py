"""The roofline of a run: peaks by dtype, bandwidths of memories, and points for the run and its kernel lines."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.report.roofline_points import RooflinePoint, line_points
from kb_cli.report.run_source import RunSource
from kb_cli.run.metrics import peak_flops
from kb_engine import Engine
from kb_messages import DType, KbError


class DTypePeak(Struct, frozen=True, kw_only=True):
    """Operations a second of the whole chip for operands of each of `dtypes`."""

    dtypes: list[str]
    flops: float


class RooflineChart(Struct, frozen=True, kw_only=True):
    """Peaks by dtype, GB/s by memory space (`reg` stands for the TCM ports), and points: the run, then its lines."""

    peaks: list[DTypePeak]
    bandwidth_gbs: dict[str, float]
    points: list[RooflinePoint]

    @property
    def used_spaces(self) -> list[str]:
        """The memory spaces that a point moved bytes of."""
        return [space for space in self.bandwidth_gbs if any(point.nbytes.get(space) for point in self.points)]


def roofline_chart(source: RunSource) -> tuple[RooflineChart, list[str]]:
    """The roofline, and a note when the chip cannot be built here."""
    results = source.run.results
    peaks, notes = list[DTypePeak](), list[str]()
    try:
        peaks = _peaks(Engine(source.chip))
    except KbError as error:  # a chip whose blocks are not installed here
        notes.append(f"{source.folder}: got no peaks by dtype: {error}")
        dtype = results.params.get("dtype")
        if results.peak_flops:
            peaks = [DTypePeak(dtypes=[str(dtype)], flops=results.peak_flops)]
    nbytes = {space: moved.read + moved.write for space, moved in results.bytes.items() if space != "tcm"}
    run = RooflinePoint(line="", flops=results.flops, ps=results.latency_ps, nbytes=nbytes)
    points = [run, *([] if source.log is None else line_points(source.log))]
    return RooflineChart(peaks=peaks, bandwidth_gbs=results.bandwidth_gbs, points=points), notes


def _peaks(engine: Engine) -> list[DTypePeak]:
    """The peak of every dtype for which a block states one, the highest first. Equal peaks stand together."""
    found: dict[float, list[str]] = {}
    for dtype in DType:
        peak = peak_flops(engine, dtype)
        if peak:
            found.setdefault(peak, []).append(dtype.value)
    return [DTypePeak(dtypes=dtypes, flops=flops) for flops, dtypes in sorted(found.items(), reverse=True)]
