"""docs/rooms.md names the files that a launch, a tile and a record pass through, in the order of their first calls.

Each way is profiled in a run, and its files are compared with the table of the page. A file that is called for the
first time only where others have been called is a part of the way of the work that calls it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter, OpLog
from kb_engine import Engine, Host, TileShape
from kb_messages import DType
from kb_topology import load_topology

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = (ROOT / "docs/rooms.md").read_text(encoding="utf-8")
FEEDER: Final = "kb_components/pe/scheduling/tile_feeder.py"
MOST_FILES: Final = {"launch": 40, "tile": 25, "record": 18, "record that is read": 20, "message": 30}


class Way:
    """The files of kernbench that are called, in the order of their first calls, as PACKAGE/PATH.

    Functions that are *known* do not count. `functions` are the functions called, each with its file.
    """

    def __init__(self, known: Set[tuple[str, str]] = frozenset()) -> None:
        self.files: list[str] = []
        self.functions: set[tuple[str, str]] = set()
        self._known = known

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
        if package is None:
            return
        file = "/".join(parts[package:])
        function = file, frame.f_code.co_qualname
        if function not in self.functions and function not in self._known:
            self.functions.add(function)
            if file not in self.files:
                self.files.append(file)


def nothing(tl: Any) -> None:
    """A kernel that does nothing."""


def product(tl: Any, a: Any, b: Any, c: Any) -> None:
    """A kernel that issues one product in tiles of 64 x 64 x 64, and waits for it."""
    tl.wait(tl.composite("gemm", a, b, c, tile=TileShape(64, 64, 64)))


def copied(tl: Any, x: Any, y: Any) -> None:
    """A kernel that loads a value and stores it."""
    tl.store(y[0], tl.load(x[0]))


def passed_on(tl: Any, x: Any, y: Any) -> None:
    """A kernel whose program 0 sends a value to program 1, which stores it and sends a signal back."""
    if tl.program_id() == 0:
        tl.send(tl.load(x[0]), 1)
        tl.wait_for("done")
    else:
        tl.store(y[0], tl.recv(0))
        tl.signal(0, "done")


def chip(name: str, exact: Any, writer: MemoryLogWriter | None = None) -> Host:
    return Host(Engine(load_topology(ROOT / f"topologies/{name}.yaml"), writer, exact=exact))


def of_launch(exact: str) -> list[str]:
    """The files of a launch of a kernel that does nothing on one_sip. It is the second one: the first finds routes."""
    host = chip("one_sip", exact)
    host.launch(nothing, pes="all")
    way = Way()
    with way.followed():
        host.launch(nothing, pes="all")
    return way.files


def of_product(exact: str, writer: MemoryLogWriter | None = None, reads: bool = False) -> list[str]:
    """The files of a launch of a product on one_pe and of its log; with *reads*, those that make the rows of the log.

    Event by event, the product has one tile, and otherwise enough tiles to skip some. The launch is the second one: the
    first one makes the plan.
    """
    host = chip("one_pe", exact, writer)
    size = 64 if exact == "events" else 1024
    way, data = Way(), np.ones((size, size), np.float16)
    for n in range(2):
        a, b = (host.tensor(f"{name}{n}", data, DType.F16) for name in "ab")
        c = host.empty(f"c{n}", (size, size), DType.F16)
        with way.followed() if n and not reads else nullcontext():
            host.launch(product, a, b, c)
    with nullcontext() if reads else way.followed():
        log = host.engine.close_log()
    if reads:
        assert isinstance(log, OpLog)
        with way.followed():
            assert len(log.ops) == log.n_ops
    return way.files


def of_tile(exact: str) -> list[str]:
    """The files of the tiles of a product, from the feeder on, without those of its launch."""
    files = of_product(exact)
    launch = {*of_launch(exact)} - {FEEDER}
    return [file for file in files[files.index(FEEDER) :] if file not in launch]


def of_record(exact: str) -> list[str]:
    """The files that write the records of a product."""
    without = {*of_product(exact)}
    return [file for file in of_product(exact, MemoryLogWriter()) if file not in without]


def of_reading(exact: str) -> list[str]:
    """The files that make the rows of the records of a product, when they are read."""
    return of_product(exact, MemoryLogWriter(), reads=True)


def of_message(exact: str) -> list[str]:
    """The files of a message and a signal with their rows: those with functions that no copy of the value calls."""
    way = Way()
    for kernel in (copied, passed_on):
        host = chip("one_cube", exact, MemoryLogWriter())
        x = host.tensor("x", np.ones((1, 64), np.float32), DType.F32)
        y = host.empty("y", (1, 64), DType.F32)
        host.launch(kernel, x, y, pes=range(2))
        way = Way(way.functions)
        with way.followed():
            host.launch(kernel, x, y, pes=range(2))
            host.engine.close_log()
    return way.files


WAYS: Final[dict[str, Callable[[str], list[str]]]] = {
    "launch": of_launch,
    "tile": of_tile,
    "record": of_record,
    "record that is read": of_reading,
    "message": of_message,
}


def files_of(name: str, exact: str) -> list[str]:
    """The files of a way, when nothing is called for the first time in the process: caches leave calls out."""
    WAYS[name](exact)
    return WAYS[name](exact)


def of_page(name: str, mode: str) -> list[str]:
    """The files that the page names for a way."""
    section = PAGE.partition(f"\n## The way of a {name}\n")[2].partition("\n## ")[0]
    table = section.partition(f"\n### {mode}\n")[2].partition("\n### ")[0]
    return re.findall(r"^\| \[[^]]*\]\(\.\./packages/[\w-]+/src/([\w/]+\.py)\)", table, re.MULTILINE)


@pytest.mark.parametrize("name", WAYS)
def test_the_page_names_the_files_of_a_way_event_by_event(name: str) -> None:
    files = files_of(name, "events")
    assert of_page(name, "Event by event") == files
    assert len(files) <= MOST_FILES[name]


@pytest.mark.speed
@pytest.mark.parametrize("name", WAYS)
def test_the_page_names_the_files_that_fast_forwarding_adds_to_a_way(name: str) -> None:
    every = {*files_of(name, "events")}
    assert of_page(name, "Fast-forwarded") == [file for file in files_of(name, "isolated") if file not in every]
