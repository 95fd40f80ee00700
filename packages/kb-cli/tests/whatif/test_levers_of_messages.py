"""Levers of runs whose programs wait for each other: doorbells, slots and transfers under way."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kb_cli.benchmark import bundled
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.simulation import read_back
from kb_cli.whatif.levers import levers
from kb_cli.whatif.whatif import what_if

Invoke = Callable[..., Result]
CHIP = bundled.folder("topologies") / "one_cube.yaml"
DOORBELL = "$.cube.pe_template.nodes.pe_queue.doorbell_ns"
BENCHMARK = """
import numpy as np
from msgspec import Struct

from kb_engine import Benchmark


def ring(tl, x, y):
    me, n = tl.program_id(), tl.num_programs()
    parts = [tl.load(x[me, rank]) for rank in range(n)]
    for step in range(n - 1):
        tl.send(parts[(me - step) % n], (me + 1) % n)
        rank = (me - step - 1) % n
        parts[rank] = parts[rank] + tl.recv((me - 1) % n)
    part = parts[(me + 1) % n]
    for _ in range(n - 1):
        tl.send(part, (me + 1) % n)
        part = tl.recv((me - 1) % n)
    tl.store(y[me, 0], part)


def to_a_slow_one(tl, x, y):
    if tl.program_id() == 0:
        part = tl.load(x[0, 0])
        for _ in range(8):
            tl.send(part, 1)
    elif tl.program_id() == 1:
        for _ in range(8):
            part = tl.recv(0)
            for _ in range(3):
                tl.wait(tl.exp(part))
            del part


def storing(tl, x, y):
    me, n = tl.program_id(), tl.num_programs()
    part = tl.load(x[me, 0])
    for rank in range(n - 1):
        tl.store_async(y[me, rank], part)
        tl.send(part, (me + 1) % n)
        part = tl.recv((me - 1) % n)


class Talk(Benchmark["Talk.Params"]):
    class Params(Struct, frozen=True, kw_only=True):
        kernel: str = "ring"

    def inputs(self, p, rng):
        return {"x": rng.standard_normal((8, 8, 32, 64)).astype(np.float32)}

    def launch(self, host, p, tensors):
        x, y = host.tensor("x", tensors["x"], "f32"), host.empty("y", tensors["x"].shape, "f32")
        host.launch({"ring": ring, "slow": to_a_slow_one, "storing": storing}[p.kernel], x, y)
        return {"y": y}

    def reference(self, p, inputs):
        raise NotImplementedError

    def flops(self, p):
        return 0
"""


def run_of(invoke: Invoke, folder: Path, *options: object) -> Path:
    """The folder of a run of the benchmark in *folder*."""
    (folder / "talk.py").write_text(BENCHMARK)
    done = invoke("run", folder / "talk.py", "--out", folder / "out", "--levers", "none", *options)
    assert done.exit_code == 0, done.stderr
    return next(each for each in (folder / "out").iterdir() if each.is_dir())


def test_doorbells_of_no_time_save_those_of_the_messages_on_the_path(invoke: Invoke, tmp_path: Path) -> None:
    """An all-reduce in a ring of 8 has 14 messages one after the other, each with a doorbell of 2 ns."""
    folder = run_of(invoke, tmp_path, "--no-verify")
    for ns in (0, 1):
        found = what_if(folder, [f"{DOORBELL}={ns}"], RunProgress())
        assert found.before_ps - found.latency_ps == 14 * (2_000 - 1_000 * ns)
    assert found.bound_ps == found.latency_ps


@pytest.mark.parametrize(
    ("kernel", "depth", "place", "name"),
    [
        ("slow", 1, "pe_queue.depth", "One more slot of QUEUE"),
        ("storing", 3, "pe_dma.outstanding", "One more transfer under way of DMA"),
    ],
)
def test_one_more_place_is_a_lever_where_programs_wait_for_each_other(
    kernel: str, depth: int, place: str, name: str, invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "chip.yaml").write_text(CHIP.read_text().replace("depth: 3", f"depth: {depth}"))
    options = ("--no-verify", "--topology", tmp_path / "chip.yaml", "-p", f"kernel={kernel}")
    (lever,) = [each for each in levers(run_of(invoke, tmp_path, *options)).levers if each.name == name]
    assert lever.set == {f"$.cube.pe_template.nodes.{place}": "2"}
    assert lever.latency_ps is not None
    assert lever.latency_ps >= lever.bound_ps


def test_one_more_place_is_no_lever_of_another_run(invoke: Invoke, tmp_path: Path) -> None:
    size = (part for axis in "MNK" for part in ("-p", f"{axis}=64"))
    done = invoke("run", "gemm", "--topology", CHIP, "--levers", "none", "--out", tmp_path / "out", *size)
    assert done.exit_code == 0, done.stderr
    found = levers(next((tmp_path / "out").iterdir()), most=0)
    assert found.chances
    assert not [each for each in found.levers if each.name.startswith("One more")]


def test_a_log_read_in_parts_gives_the_path_of_one_read_whole(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_back, "MOST_WHOLE", 0)
    (tmp_path / "parts").mkdir()
    in_parts = run_of(invoke, tmp_path / "parts", "--no-verify")
    monkeypatch.undo()
    (tmp_path / "whole").mkdir()
    whole = run_of(invoke, tmp_path / "whole", "--no-verify")
    assert (in_parts / "where.json").read_bytes() == (whole / "where.json").read_bytes()
