"""Sums over a loop of more blocks than TCM holds, `s = s + tl.sum(tl.load(block))`, against numpy.

The recorded ops of such a loop hold every block. Where one program cannot compute all of them, the first ops are issued
when TCM is full. The chips have TCMs that the blocks fill to the last byte, and register files down to 8 KiB.
"""

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

FORMS = ("columns", "rows", "all", "squares", "largest", "wide", "kept")
SHAPES = ((16, 64), (8, 256), (64, 16), (7, 48), (1, 1024), (33, 40))


class Case(NamedTuple):
    """`outer` times `inner` blocks of `rows` x `cols`, the sums of each block, and a TCM of `room` blocks."""

    forms: tuple[str, ...]
    rows: int
    cols: int
    outer: int
    inner: int
    room: int
    dtype: DType
    register_kib: int
    programs: int


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    forms = tuple(rng.choice(FORMS, rng.integers(1, 4), replace=False).tolist())
    rows, cols = SHAPES[rng.integers(len(SHAPES))]
    dtype = (DType.F32, DType.F16)[rng.integers(2)]
    outer, inner = (int(each) for each in rng.integers(2, 7, 2))
    # Beside the blocks, TCM holds each sum twice: the sum of f32 of a block of one row of f16 is larger than the block.
    room = int(rng.integers(3, 9)) + len(forms) * (4 if rows == 1 else 1) + forms.count("rows") * 2
    # A result wider than its block replaces no block that is cut into strips, so registers hold a block of f16.
    register_kib = int(rng.choice((8, 16, 64, 512) if dtype is DType.F32 else (64, 512)))
    return Case(forms, rows, cols, outer, inner, room, dtype, register_kib, int(rng.choice((1, 6))))


def kernel(tl: Any, x: Any, y: Any, case: Case) -> None:
    number = tl.program_id(0)
    rows = case.rows
    sums = {form: tl.zeros(shape_of(form, case), "f32") for form in case.forms}
    for i in range(case.outer):
        kept = None
        for j in range(case.inner):
            start = ((number * case.outer + i) * case.inner + j) * rows
            block = tl.load(x[start : start + rows, :])
            for form in case.forms:
                if form == "columns":
                    sums[form] = sums[form] + tl.sum(block, axis=0)
                elif form == "rows":
                    sums[form] = sums[form] + tl.sum(block, axis=1)
                elif form == "all":
                    sums[form] += tl.sum(tl.sum(block, axis=1), axis=0)
                elif form == "squares":
                    sums[form] += tl.sum(tl.sum(block * block, axis=0), axis=1)
                elif form == "largest":
                    sums[form] = tl.maximum(sums[form], tl.max(block, axis=0))
                elif form == "wide":
                    sums[form] = sums[form] + tl.sum(block.to("f32"), axis=0)
                else:
                    kept = block if kept is None else tl.maximum(kept, block)
        if kept is not None:
            sums["kept"] = sums["kept"] + tl.sum(kept, axis=0)
        del kept, block
    at = number * len(case.forms)
    for form in case.forms:
        value = sums.pop(form)
        tl.store(y[at, 0 : value.shape[0] * value.shape[1]], value.ravel())
        at += 1


def shape_of(form: str, case: Case) -> tuple[int, int]:
    return {"rows": (case.rows, 1), "all": (1, 1), "squares": (1, 1)}.get(form, (1, case.cols))


def expected(case: Case, x: npt.NDArray[Any], wide: int) -> npt.NDArray[np.float64]:
    blocks = x.astype(np.float64).reshape(case.programs, case.outer, case.inner, case.rows, case.cols)
    found = np.zeros((case.programs * len(case.forms), wide))
    for program in range(case.programs):
        mine = blocks[program]
        values = {
            "columns": mine.sum(axis=(0, 1, 2)),
            "wide": mine.sum(axis=(0, 1, 2)),
            "rows": mine.sum(axis=(0, 1, 3)),
            "all": mine.sum(),
            "squares": (mine * mine).sum(),
            "largest": np.maximum(mine.max(axis=(0, 1, 2)), 0),
            "kept": mine.max(axis=1).sum(axis=(0, 1)),
        }
        for at, form in enumerate(case.forms):
            value = np.ravel(values[form])
            found[program * len(case.forms) + at, : value.size] = value
    return found


def run(case: Case, issue: str, **options: Any) -> str:
    """The digest of *case*, whose sums are those of numpy: all numbers are integers that the dtypes have."""
    chip = chip_spec("one_cube")
    nodes = nodes_of_pe(chip)
    nodes["pe_cpu"]["issue"] = issue
    nodes["pe_fetch_store"]["memory"]["size"] = f"{case.register_kib} KiB"
    block_nbytes = -(-case.rows * case.cols * case.dtype.nbytes // 64) * 64
    buffers = nodes["pe_scheduler"]["input_kib"] + nodes["pe_scheduler"]["output_kib"]
    nodes["pe_tcm"]["memory"]["size"] = buffers * 1024 + case.room * block_nbytes
    engine = Engine(changed_chip(chip), MemoryLogWriter(), **options)
    host = Host(engine, Path(__file__).parent)
    count = case.programs * case.outer * case.inner * case.rows
    values = np.random.default_rng(case.room).integers(-1, 2, (count, case.cols))
    x = host.tensor("x", values.astype(np.float16 if case.dtype is DType.F16 else np.float32), case.dtype)
    wide = max(case.rows, case.cols)
    y = host.tensor("y", np.zeros((case.programs * len(case.forms), wide), np.float32), DType.F32)
    host.launch(kernel, x, y, case, pes=range(min(case.programs, 4)), grid=case.programs)
    log = engine.close_log()
    assert sanitize(log) == []
    assert engine.initial_memory is not None
    for mode in ("tile", "fused"):
        after = Executor(log, engine.initial_memory, mode, fuse_from=2).run()  # type: ignore[arg-type]
        np.testing.assert_array_equal(read_tensor(after, y), expected(case, values, wide))
    assert all(pe.tcm.free_nbytes == pe.tcm.nbytes for pe in engine.pes.values())
    return log.digest


@pytest.mark.parametrize("seed", sampled(range(20), 2))
def test_sums_of_more_blocks_than_tcm_holds_are_right(seed: int) -> None:
    case = draw(seed)
    for issue in ("blocking", "scoreboard", "decoupled"):
        digests = {run(case, issue), run(case, issue, templates=False), run(case, issue, exact="events")}
        digests.add(run(case, issue, exact="isolated"))
        assert len(digests) == 1, issue
