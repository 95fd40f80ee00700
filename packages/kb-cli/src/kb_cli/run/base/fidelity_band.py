"""Fidelity: the band around the time of a run in which a device lies, by a comparison of the chip with the device.

Design: docs/design/attribution.md
"""

from __future__ import annotations

from msgspec import Struct, UnsetType

from kb_cli.terminal.units import PS_PER_NS, duration

_OLDER = "an older version compared the run by its kind alone"


class Fidelity(Struct, frozen=True, kw_only=True):
    """How far the time of a run may be from that of a device, by a comparison of the chip with the device.

    `validated` says that the run is like the measured rows of a comparison: the same chip and kernel, and parameters,
    choices and sizes within those of the rows. `time_ns` is the time that these rows measure: the latency, and besides
    it the `startup_ns` of the kernels where the rows count a start-up, that of the chip or one of
    their own. `low_ns` and `high_ns` are `time_ns` divided
    and multiplied by e to the power of `p90`: nine of ten of the `rows` measured on `device` lay within that band.
    `test` is the kind of the rows, `times` the clock of their times, `kernel` the benchmark that was compared, and
    `source` the script.

    Other runs have no band, and `why` is a clause that names the condition that failed. `device` and `source` are then
    those of the comparison that is nearest to the run; without `test` and `rows` the chip was changed since.

    Older versions wrote neither `kernel` nor `why`. Their bands are not shown, because they held for a kind of runs.
    """

    validated: bool
    why: str = ""
    test: str | None = None
    kernel: str | None = None
    time_ns: float | None = None
    startup_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    device: str | None = None
    rows: int | None = None
    p90: float | None = None
    source: str | None = None
    times: str | None = None

    @property
    def band_ns(self) -> tuple[float, float] | None:
        """The two ends of the band in nanoseconds; None for a run that is not validated."""
        if not self.validated or self.kernel is None or self.low_ns is None or self.high_ns is None:
            return None
        return self.low_ns, self.high_ns

    def __str__(self) -> str:
        band = self.band_ns
        if band is None:
            of_chip = " for this kernel" if self.why and self.test is not None else ""
            return f"not validated{of_chip}: {self.why or _OLDER}"
        low, high = (duration(ns * PS_PER_NS) for ns in band)
        with_startup = f"with start-up {duration((self.time_ns or 0.0) * PS_PER_NS)}: " if self.startup_ns else ""
        return f"{with_startup}{low} to {high}, as 9 of 10 of {self.rows} {self.test} rows of {self.device}"


def fidelity_text(fidelity: Fidelity | UnsetType) -> str:
    """Returns the fidelity in brackets, to stand behind a latency; "" for a run of a version that had none."""
    return "" if isinstance(fidelity, UnsetType) else f" ({fidelity})"
