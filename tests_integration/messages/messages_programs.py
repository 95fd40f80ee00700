"""Random programs that send messages and signals, on random chips. They cannot deadlock: all of their steps are drawn
in one order in which each of them can be done, and each program does its own steps in that order."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "tests_shared"))
sys.path.insert(0, str(Path(__file__).parents[1] / "isolated"))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from chip_specs import changed_chip, nodes_of_pe
from fast_forward import least_stages
from isolated_cases import counts_of
from messages_chips import chip_of, mesh_of, ring_of

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TileShape, read_tensor

SHAPES = ((1, 1), (1, 7), (3, 5), (16, 16), (64, 64), (1, 16), (5, 3), (96, 128))
N_INPUTS, SIDE, MOST_HELD = 3, 48, 4
ISSUES = ("blocking", "blocking", "scoreboard", "decoupled")
Step = tuple[Any, ...]


class MessagesCase(NamedTuple):
    """A chip, the steps of each program, the inputs of each program, the shapes of what each program stores, and what
    it stores by numpy. The programs are launched `launches` times on `pes`, in a grid of the `schedule` if there is
    one."""

    spec: dict[str, Any]
    programs: list[list[Step]]
    inputs: list[list[np.ndarray]]
    stored: list[list[np.ndarray]]
    pes: list[int]
    schedule: str
    launches: int


class MessagesRun(NamedTuple):
    """What two runs of a case have in common: the digest of the log ("" without one), counts, times and data."""

    digest: str
    counts: list[object]
    launches: list[object]
    data: list[bytes]


class _Held(NamedTuple):
    """A value that a program holds, by numpy: the channel in whose slot it lies, or None, and whether no command that
    makes or reads it may be under way."""

    array: np.ndarray
    key: Any
    is_idle: bool


class _Drawing:
    """Draws the steps of *n* programs on a chip with *depth* slots for each channel."""

    def __init__(self, rng: random.Random, n: int, depth: int, n_steps: int) -> None:
        self.rng, self.n, self.depth = rng, n, depth
        self.steps: list[list[Step]] = [[] for _ in range(n)]
        self.inputs = [[rng.choice(SHAPES) for _ in range(N_INPUTS)] for _ in range(n)]
        data = np.random.default_rng(rng.randrange(1 << 30))
        self.arrays = [[data.integers(-8, 9, shape).astype(np.float32) for shape in shapes] for shapes in self.inputs]
        self.held: list[list[_Held]] = [[] for _ in range(n)]
        self.stored: list[list[np.ndarray]] = [[] for _ in range(n)]
        self.sizes: dict[Any, int] = {}
        self.coming: dict[Any, list[np.ndarray]] = {}
        self.in_slots: Counter[Any] = Counter()
        self.signals: Counter[Any] = Counter()
        for _ in range(n_steps):
            self._draw()
        for key, messages in list(self.coming.items()):
            for _ in list(messages):
                self._receive(*key)
        for me in range(n):
            while self.held[me]:
                self._store(me, len(self.held[me]) - 1)
                self._drop(me, len(self.held[me]) - 1)

    def _draw(self) -> None:
        """Draws a step of one program, if it can be done now."""
        me = self.rng.randrange(self.n)
        self.rng.choices(*_WEIGHTS)[0](self, me)

    def _load(self, me: int) -> None:
        if len(self.held[me]) < MOST_HELD:
            place, kind = self.rng.randrange(N_INPUTS), self.rng.choice(("load", "load_async"))
            self._do(me, kind, place)
            self.held[me].append(_Held(self.arrays[me][place], None, kind == "load"))

    def _compute(self, me: int) -> None:
        held = self.held[me]
        if not 0 < len(held) < MOST_HELD:
            return
        one, other = self.rng.randrange(len(held)), self.rng.randrange(len(held))
        if held[one].array.shape == held[other].array.shape and self.rng.random() < 0.5:
            self._do(me, "add", one, other)
            array = held[one].array + held[other].array
        else:
            self._do(me, "math", one)
            array = held[one].array * 2 + 1
        self._busy(me, one, other)
        held.append(_Held(array, None, False))

    def _signal(self, me: int) -> None:
        if self.n > 1:
            to, flag, n = self._other(me), self.rng.choice((0, ("f", 1))), self.rng.randint(1, 3)
            self.signals[to, flag] += n
            self._do(me, "signal", to, flag, n)

    def _wait(self, _: int) -> None:
        if self.signals:
            (to, flag), n = self.rng.choice([*self.signals.items()])
            self._do(to, "wait", flag, self.rng.randint(1, n))

    def _barrier(self, _: int) -> None:
        group = None if self.rng.random() < 0.5 else tuple(self.rng.sample(range(self.n), self.rng.randint(1, self.n)))
        for each in range(self.n) if group is None else group:
            self._do(each, "barrier", group)

    def _multiply(self, me: int) -> None:
        self._do(me, "gemm", self.rng.choice((16, 32, 48)))

    def _send(self, me: int) -> None:
        if not self.held[me] or self.n == 1:
            return
        which, to = self.rng.randrange(len(self.held[me])), self._other(me)
        tag = self.rng.choice((0, 0, 1, ("t", 2)))
        value = self.held[me][which].array
        key = me, to, tag
        if self.in_slots[key] >= self.depth or value.nbytes > self.sizes.get(key, value.nbytes):
            return
        self.sizes.setdefault(key, -(-value.nbytes // 64) * 64)
        self.in_slots[key] += 1
        self.coming.setdefault(key, []).append(value)
        self._do(me, "send", which, to, tag)
        self._busy(me, which)

    def _take(self, _: int) -> None:
        ready = [key for key, messages in self.coming.items() if messages]
        if ready:
            self._receive(*self.rng.choice(ready))

    def _leave(self, me: int) -> None:
        if self.held[me]:
            self._drop(me, self.rng.randrange(len(self.held[me])))

    def _write(self, me: int) -> None:
        if self.held[me]:
            self._store(me, self.rng.randrange(len(self.held[me])))

    def _do(self, me: int, *step: Any) -> None:
        self.steps[me].append(step)

    def _other(self, me: int) -> int:
        return (me + self.rng.randrange(1, self.n)) % self.n

    def _receive(self, source: int, to: int, tag: Any) -> None:
        key = source, to, tag
        self._do(to, "recv", source, tag)
        self.held[to].append(_Held(self.coming[key].pop(0), key, True))
        if len(self.held[to]) > MOST_HELD:
            self._drop(to, 0)

    def _drop(self, me: int, which: int) -> None:
        _, key, is_idle = self.held[me].pop(which)
        self._do(me, self.rng.choice(("drop", "free")) if is_idle else "drop", which)
        if key is not None:
            self.in_slots[key] -= 1

    def _store(self, me: int, which: int) -> None:
        kind = self.rng.choice(("store", "store_async"))
        self._do(me, kind, which, len(self.stored[me]))
        self.stored[me].append(self.held[me][which].array)
        if kind == "store_async":
            self._busy(me, which)

    def _busy(self, me: int, *which: int) -> None:
        """A command that may be under way reads these values."""
        for each in which:
            self.held[me][each] = self.held[me][each]._replace(is_idle=False)


_WEIGHTS: Any = (
    (
        _Drawing._send, _Drawing._take, _Drawing._load, _Drawing._compute, _Drawing._leave, _Drawing._write,
        _Drawing._signal, _Drawing._wait, _Drawing._barrier, _Drawing._multiply,
    ),
    (6, 6, 3, 2, 1, 1, 2, 2, 0.5, 1),
)  # fmt: skip
"""The kinds of steps, and how often each is drawn."""


def draw(seed: int, most_steps: int = 60) -> MessagesCase:
    """The case of *seed*."""
    rng = random.Random(seed)
    spec, n_pes = _chip(rng)
    n = rng.randint(1, n_pes)
    depth = nodes_of_pe(spec)["pe_queue"]["depth"]
    drawn = _Drawing(rng, n, depth, rng.randint(5, most_steps))
    pes = rng.sample(range(n_pes), n if rng.random() < 0.6 else rng.randint(n, n_pes))
    schedule = "" if len(pes) == n and rng.random() < 0.6 else rng.choice(("dynamic", "static"))
    return MessagesCase(spec, drawn.steps, drawn.arrays, drawn.stored, pes, schedule, rng.choice((1, 1, 2)))


def run(case: MessagesCase, exact: Any = "isolated", templates: bool = True, logs: bool = True) -> MessagesRun:
    """Simulates *case*. Small commands are isolated too, if *exact* says so."""
    with least_stages(1):
        engine = Engine(changed_chip(case.spec), MemoryLogWriter() if logs else None, exact=exact, templates=templates)
        host = Host(engine, Path(__file__).parent)
        xs, ys, work = _tensors(host, case)
        launches: list[object] = []
        for _ in range(case.launches):
            grid = {"grid": len(case.programs), "schedule": case.schedule} if case.schedule else {}
            launches.append(host.launch(kernel, xs, ys, work, case.programs, pes=case.pes, **grid))
        counts, log = counts_of(engine), engine.close_log()
    data: list[bytes] = []
    if log is not None and engine.initial_memory is not None:
        memory = Executor(log, engine.initial_memory).run()
        for tensors, wanted in zip(ys, case.stored, strict=True):
            for tensor, array in zip(tensors, wanted, strict=True):
                found = read_tensor(memory, tensor)
                np.testing.assert_array_equal(found, array)
                data.append(found.tobytes())
    return MessagesRun("" if log is None else str(log.digest), counts, launches, data)


def kernel(tl: Language, xs: Any, ys: Any, work: Any, programs: list[list[Step]]) -> None:
    """Each program does its own steps."""
    me = tl.program_id()
    held: list[Any] = []
    pending: list[Any] = []
    for kind, *args in programs[me]:
        _STEPS[kind](tl, held, pending, (xs[me], ys[me], work[me]), *args)
    for each in pending:
        tl.wait(each)


def _gemm(tl: Language, held: Any, pending: Any, mine: Any, side: int) -> None:
    a, b, c = (each[:side, :side] for each in mine[2])
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))


def _free(tl: Language, held: list[Any], pending: Any, mine: Any, which: int) -> None:
    tl.free(held.pop(which))


def _drop(tl: Language, held: list[Any], pending: Any, mine: Any, which: int) -> None:
    del held[which]


_STEPS: dict[str, Any] = {
    "load": lambda tl, held, pending, mine, place: held.append(tl.load(mine[0][place])),
    "load_async": lambda tl, held, pending, mine, place: held.append(tl.load_async(mine[0][place])),
    "math": lambda tl, held, pending, mine, one: held.append(held[one] * 2.0 + 1.0),
    "add": lambda tl, held, pending, mine, one, other: held.append(held[one] + held[other]),
    "send": lambda tl, held, pending, mine, which, to, tag: tl.send(held[which], to, tag),
    "recv": lambda tl, held, pending, mine, source, tag: held.append(tl.recv(source, tag)),
    "drop": _drop,
    "free": _free,
    "store": lambda tl, held, pending, mine, which, place: tl.store(mine[1][place], held[which]),
    "store_async": lambda tl, held, pending, mine, which, place: pending.append(
        tl.store_async(mine[1][place], held[which])
    ),
    "signal": lambda tl, held, pending, mine, to, flag, n: tl.signal(to, flag, n),
    "wait": lambda tl, held, pending, mine, flag, n: tl.wait_for(flag, n),
    "barrier": lambda tl, held, pending, mine, group: tl.barrier(group),
    "gemm": _gemm,
}


def _tensors(host: Host, case: MessagesCase) -> tuple[Any, Any, Any]:
    """The inputs and outputs of each program, and three matrices for its products."""
    xs, ys, work = [], [], []
    for number, (inputs, stored) in enumerate(zip(case.inputs, case.stored, strict=True)):
        near = [host.hbm_slice_of(case.pes[number])]
        xs.append([host.tensor(f"x{number}", array, DType.F32, slices=near) for array in inputs])
        ys.append([host.empty(f"y{number}", array.shape, DType.F32, slices=near) for array in stored])
        zeros = np.zeros((SIDE, SIDE), np.float16)
        work.append([host.tensor(name, zeros, DType.F16, slices=near) for name in "abc"])
    return xs, ys, work


def _chip(rng: random.Random) -> tuple[dict[str, Any], int]:
    """A random chip, and the number of its PEs."""
    name = rng.choice(("one_cube", "one_cube", "ring", "mesh"))
    if name == "one_cube":
        spec, n_pes = chip_of("one_cube"), 8
    elif name == "ring":
        n_cubes, n_pes = rng.randint(2, 5), rng.randint(1, 2)
        spec, n_pes = ring_of(n_cubes, n_pes), n_cubes * n_pes
    else:
        spec, n_pes = mesh_of(1, 2), 16
    pe = nodes_of_pe(spec)
    for link in spec["cube"]["links"]:
        link["bw_gbs"] = rng.choice((link["bw_gbs"], link["bw_gbs"], 16, 51.2, 100))
        link["length_mm"] = rng.choice((link["length_mm"], link["length_mm"], 40, 5, 0))
    pe["pe_cpu"] |= {"issue": rng.choice(ISSUES), "issue_ns": rng.choice((0, 1, 4, 10))}
    pe["pe_cpu"]["engine_queue_depth"] = rng.choice((1, 2, 8))
    pe["pe_scheduler"] |= {"command_ns": rng.choice((0, 2, 8)), "submission_depth": rng.choice((1, 2, 8))}
    pe["pe_dma"] |= {"setup_ns": rng.choice((0, 1, 5)), "outstanding": rng.choice((1, 1, 2, 4))}
    pe["pe_dma"]["queue_depth"] = rng.choice((1, 2, 4))
    pe["pe_tcm"]["latency_ns"] = rng.choice((0, 2))
    pe["pe_tcm"]["dma_bw_gbs"] = rng.choice((128, 32, 12.8))
    if rng.random() < 0.3:
        pe["pe_tcm"]["memory"]["size"] = rng.choice(("832 KiB", "900 KiB", "1 MiB"))
    pe["pe_queue"] |= {"depth": rng.randint(1, 4), "doorbell_ns": rng.choice((0, 2, 0.001, 30))}
    pe["pe_queue"]["credit_ns"] = rng.choice((0, 2, 30))
    if rng.random() < 0.2:
        spec["packets"] = {"payload_nbytes": rng.choice((32, 256)), "header_nbytes": rng.choice((8, 32))}
    if rng.random() < 0.2:
        spec["slow"] = {f"pe{rng.randrange(8 if n_pes >= 8 else 1)}": rng.choice((1.1, 2, 3.7, 40))}
    return spec, n_pes
