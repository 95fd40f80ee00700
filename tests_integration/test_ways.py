"""docs/rooms.md names the files that a launch, a tile and a record pass through, in the order of their first calls.

Each way is profiled in a run, and its files are compared with the table of the page. A file that is called for the
first time only where others have been called is a part of the way of the work that calls it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

from kb_dataexec import MemoryLogWriter, OpLog
from kb_engine import Engine, Host, TileShape
from kb_messages import DType
from kb_topology import load_topology

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = (ROOT / "docs/rooms.md").read_text(encoding="utf-8")
FEEDER: Final = "kb_components/pe/scheduling/tile_feeder.py"
MOST_FILES: Final = {"launch": 40, "tile": 25, "record": 15}


class Way:
    """The files of kernbench that are called, in the order of their first calls, as PACKAGE/PATH."""

    def __init__(self) -> None:
        self.files: list[str] = []

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follows the calls of the block."""
        before = sys.getprofile()
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        parts = Path(frame.f_code.co_filename).parts
        package = next((n for n, part in enumerate(parts) if re.fullmatch(r"kb_[a-z]+", part)), None)
        if package is not None and "/".join(parts[package:]) not in self.files:
            self.files.append("/".join(parts[package:]))


def nothing(tl: Any) -> None:
    """A kernel that does nothing."""


def product(tl: Any, a: Any, b: Any, c: Any) -> None:
    """A kernel that issues one product in tiles of 64 x 64 x 64, and waits for it."""
    tl.wait(tl.composite("gemm", a, b, c, tile=TileShape(64, 64, 64)))


def chip(name: str, exact: str, writer: MemoryLogWriter | None = None) -> Host:
    return Host(Engine(load_topology(ROOT / f"topologies/{name}.yaml"), writer, exact=exact))  # type: ignore[arg-type]


def of_launch(exact: str) -> list[str]:
    """The files of a launch of a kernel that does nothing on one_sip. It is the second one: the first finds routes."""
    host = chip("one_sip", exact)
    host.launch(nothing, pes="all")
    way = Way()
    with way.followed():
        host.launch(nothing, pes="all")
    return way.files


def of_product(exact: str, writer: MemoryLogWriter | None = None) -> list[str]:
    """The files of a launch of a product on one_pe, of its log, and of reading its rows.

    The product has one tile event by event, and enough tiles to skip some otherwise. The launch is the second one: the
    first one makes the plan.
    """
    host = chip("one_pe", exact, writer)
    size = 64 if exact == "events" else 1024
    way, data = Way(), np.ones((size, size), np.float16)
    for n in range(2):
        a, b = (host.tensor(f"{name}{n}", data, DType.F16) for name in "ab")
        c = host.empty(f"c{n}", (size, size), DType.F16)
        with way.followed() if n else nullcontext():
            host.launch(product, a, b, c)
    with way.followed():
        log = host.engine.close_log()
        if isinstance(log, OpLog):
            assert len(log.ops) > 0, log
    return way.files


def of_tile(exact: str) -> list[str]:
    """The files of the only tile of a product, from its feeder on, without those of the launch and of its log."""
    files = of_product(exact)
    launch = set(of_launch(exact))
    return [file for file in files[files.index(FEEDER) :] if file not in launch or file == FEEDER]


def of_record(exact: str) -> list[str]:
    """The files that write and read the records of a product."""
    without = set(of_product(exact))
    return [file for file in of_product(exact, MemoryLogWriter()) if file not in without]


if __name__ == "__main__":
    for name, files in (("launch", of_launch), ("tile", of_tile), ("record", of_record)):
        every = files("events")
        print(name, "events", len(every), *every, sep="\n   ")
        skips = [f for f in files("closed") if f not in every]
        print(name, "fastforward", len(skips), *skips, sep="\n   ")
