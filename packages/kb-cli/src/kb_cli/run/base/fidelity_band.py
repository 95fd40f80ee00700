"""Fidelity: the band around a simulated latency in which a device lies, by a comparison of the chip with the device.

Design: docs/design/attribution.md
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, UnsetType

from kb_cli.terminal.units import PS_PER_NS, duration

Test = Literal["gemm", "dram", "noc"]


class Fidelity(Struct, frozen=True, kw_only=True):
    """How far the latency of a run may be from a device, by the comparison of the chip with the device that fits the
    run.

    `test` is the kind of that comparison. `low_ns` and `high_ns` are the latency divided and multiplied by e to the
    power of `p90`: nine of ten of the `rows` measured on `device` lay within that band. Without such a comparison,
    `validated` is false and the band is None. The same holds for a chip that was changed after its comparison; `device`
    and `source` then name that comparison.
    """

    test: Test
    validated: bool
    low_ns: float | None = None
    high_ns: float | None = None
    device: str | None = None
    rows: int | None = None
    p90: float | None = None
    source: str | None = None

    def __str__(self) -> str:
        if self.low_ns is None or self.high_ns is None or self.p90 is None:
            if self.device is not None:
                return f"not validated: the chip was changed since its {self.test} test against {self.device}"
            return f"not validated: no {self.test} test on this chip"
        low, high = (duration(ns * PS_PER_NS) for ns in (self.low_ns, self.high_ns))
        return f"{low} to {high}, as 9 of 10 of {self.rows} {self.test} rows of {self.device}"


def fidelity_text(fidelity: Fidelity | UnsetType) -> str:
    """Returns the fidelity in brackets, to stand behind a latency; "" for a run of an older version."""
    return "" if isinstance(fidelity, UnsetType) else f" ({fidelity})"
