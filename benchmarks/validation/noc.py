"""Does a network on a chip take as long for transactions as the device that it describes? See README.md.

    python benchmarks/validation/noc.py --data FILE [--picture scatter.svg] [--explain N] [--json]

FILE is a CSV with the columns device, test, params, value, unit, source, licence. A row of `noc_one_from_one_read` or
`noc_one_to_one_write` has params `nbytes= count=`: one core reads from, or writes to, a core one row and one column
away, *count* transactions one behind the other. The value is in cycles of the clock
that the unit names (`cycles at 1 GHz`).
Exit code 1: the p90 of a device is above its target, or less than 85 % of the rows lie in the band that the chip
states. Exit code 2: FILE cannot be used.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import measured
import stated_bands
from measured import Comparison, MeasuredRow

from kb_engine import Engine
from kb_messages import Rectangle
from kb_topology import Topology, load_topology

READ: Final = "noc_one_from_one_read"
TESTS: Final = (READ, "noc_one_to_one_write")
CLOCK: Final = re.compile(r"cycles at ([0-9.]+) GHz")


class NocDevice(NamedTuple):
    """The topology of a device, its columns, the largest packet in bytes, and the largest p90 and ledger."""

    topology: str
    cols: int
    packet_nbytes: int
    p90: float
    most_fitted: int


DEVICES: Final = {
    "wormhole": NocDevice("wormhole", 10, 8192, 0.05, most_fitted=3),
    "blackhole": NocDevice("blackhole", 17, 16384, 0.10, most_fitted=0),
}
"""By the first word of a device's name: `wormhole_b0`, `blackhole_p150`. Boards of a chip have its network."""


def device_of(name: str) -> NocDevice:
    """The device *name*. Raises KeyError for others."""
    return DEVICES[name.partition("_")[0]]


class Transactions:
    """Transactions of the tile in row 1 and column 1 with the tile in row 2 and column 2, packet by packet.

    A packet is asked for when the set-up of the one before is over, and not more than `outstanding` are under way.
    """

    def __init__(self, topology: Topology, device: NocDevice, write: bool) -> None:
        engine = Engine(topology)
        first, second = (f"sip0.cube{row * device.cols + row}.pe0" for row in (1, 2))
        dma: Any = engine.components[f"{first}.pe_dma"]
        region = engine.topology.address_map.region_of_node(f"{second}.pe_tcm")
        self._clock, self._fabric, self._base = engine.clock, engine.fabric, region.base
        self._path = engine.fabric.path(f"{first}.pe_dma", region.owner)
        self._write, self._packet_nbytes = write, device.packet_nbytes
        self._outstanding = dma.spec.outstanding
        setup_ns = dma.spec.write_setup_ns if write and dma.spec.write_setup_ns is not None else dma.spec.setup_ns
        self._setup_ps = round(1000 * setup_ns)
        self._left: list[int] = []
        self._under_way = 0
        self._is_setting_up = False

    def take_ps(self, nbytes: int, count: int) -> int:
        """Picoseconds of *count* transactions of *nbytes*, from the first set-up to the last byte or answer."""
        whole, rest = divmod(nbytes, self._packet_nbytes)
        packets = [self._packet_nbytes] * whole + [rest] * bool(rest)
        self._left = packets * count
        began = self._clock.now_ps
        self._next()
        self._clock.drain()
        return self._clock.now_ps - began

    def _next(self) -> None:
        if self._left and not self._is_setting_up and self._under_way < self._outstanding:
            self._is_setting_up = True
            self._under_way += 1
            self._clock.call_at(self._clock.now_ps + self._setup_ps, self._send, self._left.pop())

    def _send(self, nbytes: int) -> None:
        self._is_setting_up = False
        move = self._fabric.write if self._write else self._fabric.read
        move(self._path, Rectangle(self._base, 1, nbytes, nbytes), self._clock.now_ps, self._done, None)
        self._next()

    def _done(self, _: object) -> None:
        self._under_way -= 1
        self._next()


def size_of(row: MeasuredRow) -> tuple[int, int, float]:
    """Bytes and number of the transactions of *row*, and the clock in GHz. Raises ValueError for other rows."""
    clock = CLOCK.fullmatch(row.unit)
    if clock is None:
        raise ValueError(f"a row of {row.device} in {row.unit!r}, and not in 'cycles at N GHz'")
    try:
        nbytes, count = int(row.params["nbytes"]), int(row.params["count"])
    except (KeyError, ValueError):
        raise ValueError(f"a row of {row.device} with {row.params}, and not with nbytes and count") from None
    if min(nbytes, count) < 1 or len(row.params) > 2:
        raise ValueError(f"a row of {row.device} with {row.params}: nbytes and count are at least 1, and all there is")
    return nbytes, count, float(clock[1])


@cache
def chip(name: str) -> Topology:
    """The topology *name* of a device."""
    return load_topology(measured.TOPOLOGIES / f"{name}.yaml")


def simulate(row: MeasuredRow) -> Comparison:
    """Send the transactions of *row*."""
    began, device = time.perf_counter(), device_of(row.device)
    nbytes, count, ghz = size_of(row)
    taken = Transactions(chip(device.topology), device, row.test != READ).take_ps(nbytes, count)
    return Comparison(row, taken * ghz / 1000, time.perf_counter() - began)


def explain(comparison: Comparison) -> str:
    """How long one transaction of the row takes, and by how much each further one makes it longer."""
    nbytes, count, ghz = size_of(comparison.row)
    device = device_of(comparison.row.device)
    alone = Transactions(chip(device.topology), device, comparison.row.test != READ).take_ps(nbytes, 1) * ghz / 1000
    each = (comparison.simulated - alone) / (count - 1) if count > 1 else 0.0
    return f"the first transaction takes {alone:.0f} cycles" + (f", each further one {each:.1f}" if count > 1 else "")


def validate(device: str, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The summary of the *comparisons* of *device*."""
    target = device_of(device)
    topology = measured.TOPOLOGIES / f"{target.topology}.yaml"
    summary = measured.p90_summary(device, comparisons, topology, target.p90, target.most_fitted)
    return stated_bands.with_band(summary, stated_bands.of_part(chip(target.topology), comparisons))


def rows_of(path: Path) -> list[MeasuredRow]:
    """The rows of *path*, which are all of known devices. Raises OSError and ValueError."""
    rows = measured.read_rows(path, TESTS)
    unknown = sorted({row.device for row in rows if row.device.partition("_")[0] not in DEVICES})
    if unknown:
        raise ValueError(f"rows of {', '.join(unknown)}, needs {', '.join(DEVICES)}")
    for row in rows:
        size_of(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and say by the exit code whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CSV of measured rows")
    parser.add_argument("--picture", type=Path, help="write an SVG of simulated over measured values")
    parser.add_argument("--explain", type=int, default=3, metavar="N", help="explain the N largest errors (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        rows = rows_of(options.data)
    except (OSError, ValueError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        print(f"{options.data}: got {reason}; needs measured rows, see --help", file=sys.stderr)
        return 2
    comparisons = [simulate(row) for row in rows]
    devices = dict.fromkeys(row.device for row in rows)
    found = [validate(name, [each for each in comparisons if each.row.device == name]) for name in devices]
    return measured.show(comparisons, found, "Transactions on a network", explain, options)


if __name__ == "__main__":
    sys.exit(main())
