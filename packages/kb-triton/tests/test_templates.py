"""Programs of a grid that repeat a template leave what programs leave that run their kernel."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_engine.fastforward.replay import Templates, templates_of
from kb_engine.observe.slow_path import SkipRefusal
from kb_messages import KbError
from kb_topology import load_topology
from kb_triton.host import Device, options_of, using

ONE_PE = Path(__file__).parents[3] / "topologies" / "one_pe.yaml"


@pytest.fixture
def repeats(monkeypatch):
    """The numbers of programs that were repeated."""
    monkeypatch.setattr(
        "kb_engine.fastforward.steady_state.program_skipper._FREE_SNAPSHOTS", -1 << 20
    )  # and no program is skipped
    found, repeat = [], Templates._repeat
    monkeypatch.setattr(Templates, "_repeat", lambda *given: (found.append(given[2]), repeat(*given)))
    return found


SCALE = 3
SEEN = []


@triton.jit
def twice(x):
    return x * 2 * SCALE


@triton.jit
def plain_kernel(x, y, n, BLOCK: tl.constexpr, kind: tl.constexpr = tl.float32):
    first = tl.program_id(0) * BLOCK
    total = tl.zeros((BLOCK,), dtype=kind)
    for at in range(first, first + BLOCK, 8):
        inside = at + tl.arange(0, 8) < n
        total += tl.sum(tl.load(x + at + tl.arange(0, 8), mask=inside, other=0))
    tl.store(y + first + tl.arange(0, BLOCK), twice(total), mask=first + tl.arange(0, BLOCK) < n)


@triton.jit
def remembers(x, y, n, BLOCK: tl.constexpr):
    SEEN.append(tl.program_id(0))
    tl.store(y + tl.program_id(0), tl.sum(tl.load(x + tl.arange(0, BLOCK))))


@triton.jit
def says(x, y, n, BLOCK: tl.constexpr):
    tl.device_print("here", n)
    tl.store(y + tl.program_id(0), tl.sum(tl.load(x + tl.arange(0, BLOCK))))


@triton.jit
def by_table(x, y, n, BLOCK: tl.constexpr):
    at = tl.load(y + tl.program_id(0)).to(tl.int32)
    tl.store(y + tl.program_id(0), tl.sum(tl.load(x + at + tl.arange(0, BLOCK))))


def launched(kernel, n, block, templates=True):
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    with using(Device(load_topology(ONE_PE), templates=templates, lenient=True)):
        kernel[-(-n // block),](x, y, n, BLOCK=block)
    return y


def test_a_loop_that_begins_at_the_programs_number_is_repeated(repeats):
    y = launched(plain_kernel, 15 * 32 - 5, 32)
    x = np.append(np.arange(15 * 32 - 5), np.zeros(5)).reshape(15, 32)
    np.testing.assert_array_equal(y, np.repeat(x.sum(1), 32)[:-5] * 6)
    assert repeats == list(range(1, 14)), "all but the first, which is traced, and the last, which is masked"


@pytest.mark.parametrize("kernel", [remembers, says, by_table])
def test_kernels_that_do_more_than_compute_are_not(kernel, repeats, capsys):
    launched(kernel, 64, 8)
    assert repeats == []
    assert capsys.readouterr().out.count("here") == 8 * (kernel is says)
    assert len(SEEN) == 8 * (kernel is remembers)
    SEEN.clear()


def test_templates_can_be_turned_off(repeats):
    assert np.array_equal(launched(plain_kernel, 480, 32, templates=False), launched(plain_kernel, 480, 32))
    assert len(repeats) == 14
    assert options_of({"KB_TEMPLATES": "0"}).templates is False
    assert options_of({}).templates is True


def test_a_function_of_another_front_end_is_not_taken_for_repeatable():
    call = SimpleNamespace(kernel=lambda _: SEEN.append(1), arguments=[], front_end=None, root=Path())
    assert isinstance(templates_of(call, 9, 1), SkipRefusal)


@pytest.mark.parametrize("text", ["9" * 19, "9" * 5000, "٣", "0", "-1", "1_0", "some"])
def test_a_number_of_configurations_is_checked(text):
    with pytest.raises(KbError, match=r"^KB_AUTOTUNE: got '.*, needs all, first, or a number from 1 on$"):
        options_of({"KB_AUTOTUNE": text})
    assert options_of({"KB_AUTOTUNE": "12"}).autotune == 12
