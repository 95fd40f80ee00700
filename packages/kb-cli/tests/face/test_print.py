"""`print(r)`: its lines add up to its headline, on some chips; `nox -s cases` tries all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from msgspec import Struct
from sampled_cases import sampled

import kernbench as kb
from kb_engine import Benchmark, Host, Tensor

X = np.ones((1024, 64), np.float32)


def several(tl: Any, x: Any, y: Any) -> None:
    rows = x.shape[0] // tl.num_programs()
    at = tl.program_id() * rows
    part = tl.load(x[at : at + rows, :])
    more = part * 2
    less = more - part
    tl.store(y[at : at + rows, :], less)


def of_a_grid(tl: Any, x: Any, y: Any) -> None:
    at = tl.program_id()
    tl.store(y[at : at + 1, :], tl.load(x[at : at + 1, :]))


def lines_of(r: kb.KernelRun) -> list[tuple[str, int, float]]:
    return r._rows()


CHIPS = ("one_pe", "one_cube", "one_sip", "four_sip", "devices/h100")


CASES = [(chip, *each) for each in ((several, {}), (of_a_grid, {"grid": 40})) for chip in CHIPS]


@pytest.mark.parametrize(("chip", "kernel", "options"), sampled(CASES, 6))
def test_lines_add_up_to_the_headline(chip: str, kernel: Any, options: dict[str, Any]) -> None:
    r = kb.run(kernel, X, kb.empty(X.shape, "f32"), chip=chip, compute=False, **options)
    rows = lines_of(r)
    assert sum(ps for _, ps, _ in rows) == r.latency_ps
    assert sum(share for _, _, share in rows) == pytest.approx(1)
    assert all(ps > 0 for _, ps, _ in rows)
    printed = str(r).splitlines()
    assert printed[0] == f"{kernel.__name__} on {r.result.topology}: {printed[0].split(': ')[1]}"
    assert re.match(r"  \d+ of \d+ PEs?; \w+ issue; ", printed[1])
    assert len(printed) == 3 + len(rows)


class Nothing(Struct):
    """No parameters."""


class Twice(Benchmark[Nothing]):
    """Two launches on a chip with a host, with an upload in between."""

    Params = Nothing

    def inputs(self, p: Nothing, rng: np.random.Generator) -> dict[str, Any]:
        return {"x": X}

    def launch(self, host: Host, p: Nothing, tensors: dict[str, Any]) -> dict[str, Tensor]:
        x, y = host.tensor("x", tensors["x"], "f32"), host.empty("y", X.shape, "f32")
        host.launch(several, x, y)
        host.write(x, X + 1)
        host.launch(several, x, y)
        return {"y": y}

    def flops(self, p: Nothing) -> int:
        return 2 * X.size

    def reference(self, p: Nothing, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"y": inputs["x"] + 1.0}


@pytest.mark.parametrize("chip", ["one_cube", "one_sip"])
def test_lines_of_several_launches_add_up(chip: str) -> None:
    r = kb.run(Twice, chip=chip, compute=False)
    assert len(r.result.launches) == 2
    assert sum(ps for _, ps, _ in lines_of(r)) == r.latency_ps == r.result.latency_ps


def test_lines_that_are_not_shown_share_a_row() -> None:
    """A kernel of twelve lines shows the eight costliest, and the time of the others in one row."""
    body = "".join(f"    part = part * {number}.0\n" for number in range(2, 12))
    source = f"def long(tl, x, y):\n    part = tl.load(x)\n{body}    tl.store(y, part)\n"
    names: dict[str, Any] = {}
    exec(compile(source, "long.py", "exec"), names)
    r = kb.run(names["long"], X[:64], kb.empty((64, 64), "f32"), chip="one_pe", compute=False)
    rows = lines_of(r)
    assert [name for name, *_ in rows][8:] == ["4 other lines"]
    assert sum(ps for _, ps, _ in rows) == r.latency_ps
