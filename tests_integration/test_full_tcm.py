"""Random math over more blocks than TCM holds, against numpy: under every way of issue, with templates and not."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from chip_specs import changed_chip, chip_spec, nodes_of_pe
from sampled_cases import sampled

from kb_dataexec import Executor, MemoryLogWriter, sanitize
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType

STEPS = ("add", "squares", "largest", "centered", "doubled")


class Case(NamedTuple):
    """`count` blocks of `rows` x `cols` for each of `programs`, and what is done with each; a TCM of `room` blocks."""

    steps: tuple[str, ...]
    rows: int
    cols: int
    count: int
    programs: int
    room: int
    dtype: DType
    register_kib: int


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    steps = tuple(rng.choice(STEPS, rng.integers(1, 4)).tolist())
    rows, cols = [(8, 64), (7, 19), (1, 300), (40, 1), (33, 50)][rng.integers(5)]
    dtype = (DType.F32, DType.F16)[rng.integers(2)]
    count, programs = int(rng.integers(14, 28)), int(rng.choice((1, 4, 6)))
    return Case(steps, rows, cols, count, programs, int(rng.integers(7, 11)), dtype, int(rng.choice((16, 512))))


def kernel(tl: Any, x: Any, y: Any, steps: Any, count: int, rows: int) -> None:
    number = tl.program_id(0)
    total = tl.zeros((rows, x.shape[1]), x.dtype)
    other = total
    for turn in range(count):
        start = (number * count + turn) * rows
        block = tl.load(x[start : start + rows])
        for step in steps:
            if step == "add":
                total = total + block
            elif step == "squares":
                other = other + block * block
            elif step == "largest":
                other = tl.maximum(other, block)
            elif step == "centered":
                total = total + (block - tl.max(block, axis=1, keep_dims=True))
            else:
                block = block * 2
    tl.store(y[number * rows : (number + 1) * rows], total + other)


def expected(case: Case, x: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    blocks = x.astype(np.float64).reshape(case.programs, case.count, case.rows, case.cols)
    total = np.zeros((case.programs, case.rows, case.cols))
    other = total.copy()
    for turn in range(case.count):
        block = blocks[:, turn]
        for step in case.steps:
            if step == "add":
                total += block
            elif step == "squares":
                other += block * block
            elif step == "largest":
                other = np.maximum(other, block)
            elif step == "centered":
                total += block - block.max(axis=2, keepdims=True)
            else:
                block = block * 2
    return (total + other).reshape(-1, case.cols)


def run(case: Case, issue: str, templates: bool = True) -> str:
    """The digest of *case*, whose results are those of numpy: all numbers are integers that the dtype has."""
    chip = chip_spec("one_cube")
    nodes = nodes_of_pe(chip)
    nodes["pe_cpu"]["issue"] = issue
    nodes["pe_fetch_store"]["memory"]["size"] = f"{case.register_kib} KiB"
    block_nbytes = -(-case.rows * case.cols * case.dtype.nbytes // 64) * 64
    buffers = nodes["pe_scheduler"]["input_kib"] + nodes["pe_scheduler"]["output_kib"]
    nodes["pe_tcm"]["memory"]["size"] = buffers * 1024 + case.room * block_nbytes
    engine = Engine(changed_chip(chip), MemoryLogWriter(),
                    templates=templates)  # fmt: skip
    host = Host(engine, Path(__file__).parent)
    values = np.random.default_rng(case.count).integers(-2, 3, (case.programs * case.count * case.rows, case.cols))
    element = np.float16 if case.dtype is DType.F16 else np.float32
    x = host.tensor("x", values.astype(element), case.dtype)
    y = host.tensor("y", np.zeros((case.programs * case.rows, case.cols), element), case.dtype)
    host.launch(kernel, x, y, case.steps, case.count, case.rows, pes=range(min(case.programs, 4)),
                grid=case.programs)  # fmt: skip
    log = engine.close_log()
    assert sanitize(log) == []
    assert engine.initial_memory is not None
    for mode in ("tile", "fused"):
        after = Executor(log, engine.initial_memory, mode, fuse_from=2).run()
        np.testing.assert_array_equal(np.asarray(read_tensor(after, y), np.float64), expected(case, values))
    assert all(pe.tcm.free_nbytes == pe.tcm.nbytes for pe in engine.pes.values())
    return log.digest


@pytest.mark.parametrize("seed", sampled(range(5), 2))
def test_math_over_more_blocks_than_tcm_holds_needs_no_bookkeeping(seed: int) -> None:
    case = draw(seed)
    for issue in ("blocking", "scoreboard", "decoupled"):
        digests = {run(case, issue), run(case, issue, templates=False)}
        assert len(digests) == 1, issue
