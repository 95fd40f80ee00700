"""Messages between PEs: events, CPU time and bytes on disk of a message, and the cost of `pe_queue` where none is sent.

    python benchmarks/speed/messages.py               # rings on one_cube, one_sip and over UCIe, and products; a minute
    python benchmarks/speed/messages.py --rounds 15   # more rounds

In a ring each PE sends on what it received last. Figures of a message are the difference between a ring of many steps
and one of half as many, divided by the messages in between, so the launch and the first routes do not count. CPU time
is the least of the rounds. The log is on disk, with all rows of a message: of its store, of the send and of waits.

Launches without messages are products of 1024^3 and empty kernels, with `pe_queue` in the chip and without it, in
turns. The script refuses chips that come to different digests.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import yaml

from kb_dataexec import FolderLogWriter, MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef
from kb_topology import Topology, loads_topology

CHECKOUT: Final = Path(__file__).parents[2]


class Cost(NamedTuple):
    """Events, CPU microseconds and bytes on disk of one message."""

    events: float
    cpu_us: float
    disk_nbytes: float


class Rings(NamedTuple):
    """A ring over `pes` of the bundled chip `chip`, with messages of `n` elements of f32, `steps` steps long."""

    chip: str
    pes: Sequence[int]
    n: int
    steps: int


RINGS: Final = {
    "one_cube, 64 bytes": Rings("one_cube", range(8), 16, 200),
    "one_cube, 16 KiB": Rings("one_cube", range(8), 4096, 200),
    "128 PEs of one_sip, 64 bytes": Rings("one_sip", range(128), 16, 40),
    "each hop over UCIe, 64 bytes": Rings("one_sip", [0, 8, 40, 32], 16, 200),
}


def ring(tl: Language, x: TensorRef, steps: int) -> None:
    """Each program sends on what it received last."""
    me, n = tl.program_id(), tl.num_programs()
    value = tl.load(x[me])
    for _ in range(steps):
        tl.send(value, (me + 1) % n)
        value = tl.recv((me - 1) % n)


def product(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    """A product of the rows of this program."""
    rows = a.shape[0] // tl.num_programs()
    own = slice(tl.program_id() * rows, (tl.program_id() + 1) * rows)
    tl.wait(tl.composite("gemm", a[own], b, out=c[own]))


def empty(tl: Language, *_: Any) -> None:
    """Does nothing."""


def chip(name: str, has_queue: bool = True) -> Topology:
    """The bundled chip *name*, with the message queues of its PEs or without."""
    spec = yaml.safe_load((CHECKOUT / f"topologies/{name}.yaml").read_text(encoding="utf-8"))
    if not has_queue:
        del spec["cube"]["pe_template"]["nodes"]["pe_queue"]
        spec["cube"]["links"] = [each for each in spec["cube"]["links"] if "pe_queue" not in each["from"]]
    return loads_topology(yaml.safe_dump(spec, sort_keys=False), f"{name}.yaml")


def cost_of(case: Rings, rounds: int) -> Cost:
    """The cost of one message of *case*."""
    half, whole = _ran(case, case.steps // 2, rounds), _ran(case, case.steps, rounds)
    n_messages = len(case.pes) * (case.steps - case.steps // 2)
    return Cost(*[(more - less) / n_messages for less, more in zip(half, whole, strict=True)])


def _ran(case: Rings, steps: int, rounds: int) -> tuple[float, float, float]:
    """Events of a ring of *steps* steps, its least CPU microseconds, and the bytes of its log on disk."""
    least_us, events, nbytes = float("inf"), 0, 0
    for _ in range(rounds):
        with TemporaryDirectory() as folder:
            engine = Engine(chip(case.chip), FolderLogWriter(Path(folder) / "log"))
            host = Host(engine, CHECKOUT)
            x = host.tensor("x", np.ones((len(case.pes), case.n), np.float32), DType.F32)
            host.launch(ring, x, 1, pes=case.pes)
            before, began = engine.clock.n_scheduled, time.process_time_ns()
            host.launch(ring, x, steps, pes=case.pes)
            least_us = min(least_us, (time.process_time_ns() - began) / 1000)
            events = engine.clock.n_scheduled - before
            engine.close_log()
            nbytes = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
    return events, least_us, nbytes


def without_messages(name: str, kernel: Any, size: int, rounds: int) -> tuple[float, float]:
    """CPU milliseconds of a launch of *kernel* on all PEs of *name*, with `pe_queue` and without.

    Raises SystemExit where the digests of the two logs differ.
    """
    hosts = [Host(Engine(chip(name, has), MemoryLogWriter()), CHECKOUT) for has in (True, False)]
    tensors = [[host.empty(each, (size, size), DType.F16) for each in "abc"] for host in hosts]
    for host, each in zip(hosts, tensors, strict=True):
        for tensor in each[:2]:
            host.write(tensor, np.zeros((size, size), np.float16))
    least = [float("inf")] * 2
    for _ in range(rounds):
        for side, host in enumerate(hosts):
            began = time.process_time_ns()
            host.launch(kernel, *tensors[side], pes="all")
            least[side] = min(least[side], (time.process_time_ns() - began) / 1e6)
    logs = [host.engine.close_log() for host in hosts]
    if len({None if log is None else log.digest for log in logs}) > 1:
        raise SystemExit(f"{name}: the log of a launch without messages depends on pe_queue")
    return least[0], least[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'a message':32} {'events':>8} {'CPU us':>8} {'bytes':>8}")
    for label, case in RINGS.items():
        found = cost_of(case, rounds)
        print(f"{label:32} {found.events:8.1f} {found.cpu_us:8.1f} {found.disk_nbytes:8.1f}", flush=True)
    print(f"{'a launch without messages':32} {'with':>8} {'without':>8} ms of CPU time")
    for name, kernel, size, times in (("one_sip", empty, 128, 40), ("one_cube", product, 1024, 20)):
        queue_ms, plain_ms = without_messages(name, kernel, size, rounds * times)
        label = f"{kernel.__name__} of {size}^3, {name}" if kernel is product else f"an empty kernel, {name}"
        print(f"{label:32} {queue_ms:8.2f} {plain_ms:8.2f}  {queue_ms / plain_ms - 1:+.1%}", flush=True)


if __name__ == "__main__":
    main()
