"""Programs of a grid with and without templates: all that can be seen of a run is the same."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, read_tensor
from kb_engine.fastforward.replay import template, templates
from kb_engine.observe import Callbacks
from kb_engine.program import LeakWatch
from kb_messages import KbError

SCOREBOARD = ("issue_ns: 3", "issue_ns: 3, issue: scoreboard")
DECOUPLED = ("issue_ns: 3", "issue_ns: 3, issue: decoupled")
ISSUES = {"blocking": (), "scoreboard": (SCOREBOARD,), "decoupled": (DECOUPLED,)}
SHAPES = {"x": (40, 48), "w": (48, 32), "y": (40, 48), "z": (40, 32)}


def softmax(tl, x, w, y, z):
    rows = tl.program_id() * 3 + tl.arange(3)
    mask = (rows < 40)[:, None] & (tl.arange(48) < 48)[None, :]
    wide = tl.load(x[rows[:, None], tl.arange(48)[None, :]], mask=mask, other=-math.inf).to("f32")
    powers = tl.exp(wide - tl.max(wide, axis=1))
    tl.store(y[rows[:, None], tl.arange(48)[None, :]], (powers / tl.sum(powers, axis=1)).to("f16"), mask=mask)


def matmul(tl, x, w, y, z):
    group, within = divmod(tl.program_id(), 4)
    i, j = group * 2 + within % 2, within // 2
    rows, cols = slice(i * 8, min(i * 8 + 8, 40)), slice(j * 16, j * 16 + 16)
    if i * 8 >= 40:
        return
    acc = 0
    for k in range(0, 48, 16):
        acc = tl.dot(tl.load(x[rows, k : k + 16]), tl.load(w[k : k + 16, cols]), acc)
    tl.store(z[rows, cols], tl.maximum(acc, 0.0).to("f16"))


def ahead(tl, x, w, y, z):
    rows = slice(tl.program_id() * 4, tl.program_id() * 4 + 4)
    pairs = ((tl.load_async(x[rows, k : k + 16]), tl.load_async(w[k : k + 16, :])) for k in range(0, 48, 16))
    acc = 0
    for a, b in tl.ahead(pairs):
        acc = tl.dot(a, b, acc)
    tl.store(z[rows, :], acc.to("f16"))


def many_steps(tl, x, w, y, z):
    rows = slice(tl.program_id() * 4, tl.program_id() * 4 + 4)
    acc = 0
    for a, b in tl.ahead((tl.load_async(x[rows, :]), tl.load_async(w)) for _ in range(99)):
        acc = tl.dot(a, b, acc)
    tl.store(z[rows, :], acc.to("f16"))


def composites(tl, x, w, y, z):
    rows = slice(tl.program_id() * 4, tl.program_id() * 4 + 4)
    result = tl.composite("gemm", x[rows, :], w, tile=(4, 16, 16))
    tl.composite("exp", x[rows, :], out=y[rows, :])
    tl.wait(result)
    tl.store(z[rows, :], result)


def copies(tl, x, w, y, z):
    number = tl.program_id()
    rows = (number * 3 + tl.arange(3))[:, None]
    tl.store(y[number : number + 1, :], tl.load(x[0:1, :]))
    edge = tl.load(x[rows, tl.arange(50)[None, :]], mask=(rows < 40) & (tl.arange(50) < 48)[None, :], other=2.0)
    tl.store(y[rows, tl.arange(50)[None, :]], edge, mask=(rows < 40) & (tl.arange(50) < 47)[None, :])
    gaps = tl.load(x[rows, 3 * tl.arange(16)[None, :]], mask=rows < 40)
    tl.store(z[rows, 31 - tl.arange(16)[None, :]], gaps, mask=rows < 40)
    tl.store(y[number * 3 : number * 3 + 1, 0:16], tl.load(z[number * 3 : number * 3 + 1, 16:32]) * 2.0)
    tl.store(z[number * 3 : number * 3 + 1, :], tl.load(y[number * 3 : number * 3 + 1, 8:40]))


def left_out(tl, x, w, y, z):
    row, column = tl.program_id(), tl.arange(48)
    tl.store(y[row, column], tl.load(x[row, column], mask=column < 0, other=5.0))
    tl.store(z[row, :], tl.load(x[row, :32]), mask=tl.arange(32) > 99)


def strided(tl, x, w, y, z):
    first = tl.program_id() * 4
    some = tl.load(x[first : first + 4, ::3]) + tl.load(x[tl.program_id(), :16])
    tl.store(y[first : first + 4, 1:33:2], some)
    columns = (tl.arange(8) * 4)[None, :]
    tl.store(z[(first + tl.arange(4))[:, None], columns], tl.load(x[first : first + 4, 8:16]) * 2)


def branches(tl, x, w, y, z):
    number = tl.program_id()
    part = slice(number, number + 1)
    value = tl.load(x[part, :])
    if number % 3 == 0:
        value = value * 2.0
    elif number > 7:
        value = tl.where(tl.arange(48) < number // 20 + 5, value, 0.5)
    for _ in range(number // 10):
        value = value + 1.0
    tl.store(y[part, :], value + 0.25)


REPEATED = {
    softmax: 14,
    matmul: 12,
    ahead: 10,
    many_steps: 10,
    composites: 10,
    strided: 10,
    branches: 40,
    copies: 14,
    left_out: 12,
}


def axes(tl, x, w, y, z):
    i, j, k = (tl.program_id(axis) for axis in range(3))
    part = x[i * 4 : i * 4 + 4, j * 12 + k * 6 : j * 12 + k * 6 + 6]
    tl.store(y[i * 4 : i * 4 + 4, j * 12 + k * 6 : j * 12 + k * 6 + 6], tl.load(part) * 3.0)


class Seen:
    """All that a run shows, and how many programs were repeated."""

    def __init__(self, chip, kernel, grid, repeated, pes=(0, 1), schedule="dynamic", before=(), shapes=SHAPES, **how):
        self.trace, self.captures, self.tcm = [], [], []
        leaks = LeakWatch()
        told = Callbacks(
            on_trace=self.trace.append,
            on_capture=self.captures.append,
            on_allocate=lambda *each: self.tcm.append(each),
            on_free=lambda *each: self.tcm.append(each),
            on_program_end=lambda pe, held: self.tcm.append((pe, *held)),
        )
        engine = Engine(chip, MemoryLogWriter(), [told, leaks], templates=repeated)
        host = Host(engine, Path(__file__).parent)
        data = np.random.default_rng(1)
        tensors = [
            host.tensor(name, data.standard_normal(shape).astype(np.float16), "f16", **how.get(name, {}))
            if name in "xw"
            else host.empty(name, shape, "f16", **how.get(name, {}))
            for name, shape in shapes.items()
        ]
        for each in before:
            host.launch(each, *tensors, pes=[0])
        try:
            self.result, self.error = host.launch(kernel, *tensors, pes=pes, grid=grid, schedule=schedule), ""
        except KbError as error:
            self.result, self.error = None, f"{type(error).__name__}: {error}"
        self.pending = [
            str(engine.memory.pending.producer(matrix)) for each in tensors for _, matrix in each.every_block()
        ]
        held = [engine.memory.store.held(*each.rectangle.in_memory) for m in tensors for _, each in m.every_block()]
        self.bytes = [((data * is_valid).tobytes(), is_valid.tobytes()) for data, is_valid in held]
        self.leaks = list(map(str, leaks.leaks))
        log = engine.close_log()
        self.digest = log.digest
        self.tables = {name: log.table(name).tobytes() for name in log.tables}
        if not self.error:
            after = Executor(log, engine.initial_memory).run()
            self.outputs = [np.array(read_tensor(after, each)).tobytes() for each in tensors[:2]]

    def differences(self, other):
        return [name for name, value in vars(self).items() if repr(value) != repr(vars(other)[name])]


@pytest.fixture
def repeats(monkeypatch):
    """The templates by which programs were repeated. No frame of this file is left when they are."""
    found = []
    repeat = template.Template.repeat

    def noted(self):
        found.append(self)
        return partial(repeat, self)

    monkeypatch.setattr(template.Template, "repeat", property(noted))
    return found


@pytest.mark.parametrize("issue", ISSUES)
@pytest.mark.parametrize("kernel", REPEATED, ids=lambda kernel: kernel.__name__)
def test_templates_change_nothing_that_can_be_seen(chip, two_pes, repeats, kernel, issue):
    topology, grid = chip(*two_pes, *ISSUES[issue]), REPEATED[kernel]
    schedule = "static" if issue == "scoreboard" else "dynamic"
    without = Seen(topology, kernel, grid, False, schedule=schedule)
    assert (without.error, repeats) == ("", [])
    assert Seen(topology, kernel, grid, True, schedule=schedule).differences(without) == []
    assert len(repeats) >= grid // 3


def test_programs_of_three_axes_and_tensors_of_several_blocks(chip, two_pes, repeats):
    how = {"x": {"blocks": (5, 1)}, "y": {"blocks": (2, 2)}}
    seen = [Seen(chip(*two_pes), axes, (10, 4, 2), each, **how) for each in (True, False)]
    assert seen[0].differences(seen[1]) == []
    assert len(repeats) > 40


def adds_by_an_atomic(tl, x, w, y, z):
    tl.atomic_add(x[0:1, :], tl.load(x[tl.program_id() : tl.program_id() + 1, :]) + 1.0)


def looks(tl, x, w, y, z):
    column = int(tl.load(x[tl.program_id() : tl.program_id() + 1, 0:1])[0, 0] > 0)
    tl.store(y[tl.program_id() : tl.program_id() + 1, column : column + 4], tl.load(x[0:1, 0:4]) * 2.0)


def keeps_a_value(tl, x, w, y, z):
    cycle = [tl.load(x[0:1, :])]
    cycle.append(cycle)
    tl.store(y[tl.program_id() : tl.program_id() + 1, :], cycle[0] + 1.0)


@pytest.mark.parametrize("kernel", [adds_by_an_atomic, looks, keeps_a_value], ids=lambda each: each.__name__)
def test_programs_that_do_more_run_their_kernel(chip, two_pes, repeats, kernel):
    seen = [Seen(chip(*two_pes), kernel, 12, each) for each in (True, False)]
    assert seen[0].differences(seen[1]) == []
    assert repeats == []


CALLS = []


def counts_its_calls(tl, x, w, y, z):
    CALLS.append(1)
    part = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[part, :], tl.load(x[part, :]) + float(len(CALLS)))


def test_a_kernel_that_counts_would_show_if_it_were_repeated(chip, two_pes, repeats, monkeypatch):
    without = Seen(chip(*two_pes), counts_its_calls, 12, False)
    CALLS.clear()
    assert Seen(chip(*two_pes), counts_its_calls, 12, True).differences(without) == []
    monkeypatch.setattr(templates, "impurity_of", lambda *_: None)
    CALLS.clear()
    assert Seen(chip(*two_pes), counts_its_calls, 12, True).differences(without) == ["digest"]
    assert repeats


def writes_half(tl, x, w, y, z):
    tl.store(y[0:20, :], tl.load(x[0:20, :]) + 1.0)


def reads_what_is_written(tl, x, w, y, z):
    part = slice(tl.program_id() * 4, tl.program_id() * 4 + 4)
    tl.store(z[part, :], tl.load(y[part, 0:32]) * 2.0)


def takes_much(tl, x, w, y, z):
    tl.composite("gemm", x, w, tile=(80, 80, 48))


@pytest.mark.parametrize("issue", ISSUES)
def test_errors_are_the_same(chip, two_pes, repeats, issue):
    topology = chip(*two_pes, *ISSUES[issue])
    seen = [Seen(topology, reads_what_is_written, 10, each, before=[writes_half]) for each in (True, False)]
    assert seen[0].error == seen[1].error
    assert seen[0].differences(seen[1]) == []
    assert "test_templates.py:" in seen[0].error
    assert "in program 5 on" in seen[0].error
    assert repeats


def test_a_full_tcm_is_the_same_error(chip, two_pes, repeats):
    """Each program leaves a result of 400 x 400 f16 under way, of which the TCM holds two at a time."""
    shapes = {"x": (400, 48), "w": (48, 400), "y": (400, 48), "z": (1, 1)}
    topology = chip(*two_pes)
    seen = [Seen(topology, takes_much, 6, each, shapes=shapes, pes=[0]) for each in (True, False)]
    assert "TCM" in seen[0].error or "pe_tcm" in seen[0].error
    assert seen[0].differences(seen[1]) == []
