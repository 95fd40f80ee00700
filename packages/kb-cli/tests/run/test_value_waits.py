"""Waits for computed values that kernels look at: counted by line, and printed."""

import json

import numpy as np
import pytest

import kernbench as kb
from kb_cli.run.base.result import ValueWait
from kb_cli.run.observe.counters import ValueWaits


def test_looks_add_up_by_line_and_the_longest_wait_comes_first():
    waits = ValueWaits()
    for pe, line, waited_ps in (("pe0", "a.py:1", 5), ("pe1", "a.py:2", 9), ("pe1", "a.py:1", 3), ("pe0", "a.py:3", 9)):
        waits.on_look(pe, line, waited_ps)
    assert waits.found == [
        ValueWait(line="a.py:2", count=1, waited_ps=9),
        ValueWait(line="a.py:3", count=1, waited_ps=9),
        ValueWait(line="a.py:1", count=2, waited_ps=8),
    ]


def halved(tl, x, y):
    value = tl.load(x)
    while tl.max(tl.abs(value)) > 1.0:
        value = value * 0.5
    tl.store(y, value)


def doubled(tl, x, y):
    tl.store(y, tl.load(x) * 2)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    x = np.array([[3.0, -5.0, 7.5]], np.float32)
    found = {}
    for kernel, expected in ((halved, x / 8), (doubled, x * 2)):
        root = tmp_path_factory.mktemp("runs")
        run = kb.run(kernel, x, kb.empty(x.shape, "f32"), chip="one_pe", pes=[0], folder=root)
        run.check(expected)
        found[kernel] = next(root.iterdir())
    return found


def test_a_report_lists_lines_that_look_at_values(invoke, folders):
    said = invoke("report", folders[halved])
    assert said.exit_code == 0, said.output
    line = f"test_value_waits.py:{halved.__code__.co_firstlineno + 2}"
    shown = said.output.splitlines()
    head = next(number for number, text in enumerate(shown) if text.startswith("looks at values"))
    assert shown[head + 2].split()[:2] == [line, "4"]  # 7.5, 3.75, 1.875 and 0.9375
    claimed = json.loads((folders[halved] / "run.json").read_text())["results"]["value_waits"]
    assert [(each["line"], each["count"]) for each in claimed] == [(line, 4)]


def test_a_kernel_that_looks_at_none_has_no_such_table(invoke, folders):
    said = invoke("report", folders[doubled])
    assert "looks at values" not in said.output
    assert "value_waits" not in json.loads((folders[doubled] / "run.json").read_text())["results"]
