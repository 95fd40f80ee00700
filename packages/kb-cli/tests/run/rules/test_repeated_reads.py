"""Bytes read again: the gain by hand, and as kernels that keep the bytes measure it."""

import numpy as np
import pytest
from rule_runs import check_remedy, remedy_of, rules, run

import kernbench as kb

RULE = "bytes read again"


def weights_in_the_loop(tl, x, w, y, block: int) -> None:
    mine = x.shape[0] // tl.num_programs()
    for start in range(tl.program_id() * mine, (tl.program_id() + 1) * mine, block):
        rows = slice(start, start + block)
        tl.store(y[rows, :], tl.dot(tl.load(x[rows, :]), tl.load(w)).to(y.dtype))


def weights_before_the_loop(tl, x, w, y, block: int) -> None:
    mine, kept = x.shape[0] // tl.num_programs(), tl.load(w)
    for start in range(tl.program_id() * mine, (tl.program_id() + 1) * mine, block):
        rows = slice(start, start + block)
        tl.store(y[rows, :], tl.dot(tl.load(x[rows, :]), kept).to(y.dtype))


def scale_in_each_program(tl, x, scale, y) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[row, :], tl.load(x[row, :]) * tl.load(scale))


def scale_once(tl, x, scale, y) -> None:
    kept = tl.load(scale)
    for number in range(tl.program_id(), x.shape[0], tl.num_programs()):
        row = slice(number, number + 1)
        tl.store(y[row, :], tl.load(x[row, :]) * kept)


def ones(*shape: int, dtype: str = "f16") -> np.ndarray:
    return kb.cast(np.ones(shape, np.float32), kb.DType(dtype))


@pytest.mark.parametrize(
    ("chip", "n_pes", "block", "depth", "width"),
    [("one_pe", 1, 64, 256, 256), ("one_cube", 8, 32, 512, 256), ("one_cube", 8, 128, 256, 128)],
)
def test_weights_that_stay_gain_as_much_as_estimated(chip: str, n_pes: int, block: int, depth: int, width: int) -> None:
    x, w, y = ones(n_pes * block * 8, depth), ones(depth, width), kb.empty((n_pes * block * 8, width), "f16")
    kernels = weights_in_the_loop, weights_before_the_loop
    flawed, rewritten = (run(kernel, x, w, y, block, chip=chip) for kernel in kernels)
    found = check_remedy(flawed, rewritten, RULE)
    assert found.part == "w"
    assert found.flaw == f"PEs load {n_pes * 7 * depth * width * 2:,} bytes of w again, which they had loaded before"


@pytest.mark.parametrize(("chip", "n_pes"), [("one_pe", 1), ("one_cube", 8), ("one_sip", 8)])
def test_programs_that_load_the_same_gain_by_one_program_for_each_pe(chip: str, n_pes: int) -> None:
    x, scale = ones(8 * n_pes, 4096, dtype="f32"), ones(4096, dtype="f32")
    options = {"chip": chip, "pes": list(range(n_pes))}
    flawed = run(scale_in_each_program, x, scale, kb.empty(x.shape, "f32"), grid=(8 * n_pes,), **options)
    rewritten = run(scale_once, x, scale, kb.empty(x.shape, "f32"), **options)
    found = check_remedy(flawed, rewritten, RULE)
    assert found.change == (
        "let one program of each PE take its blocks in a loop, and load them once, before the loop: they take "
        "16,384 bytes of a TCM"
    )


def test_the_gain_is_the_time_of_the_loads_that_go() -> None:
    # 7 loads of 16 KiB go: 4 ns of issue, 8 of decoding, 5 of set-up, 45 of latency, 160 of bytes, 4.07 of the XBAR.
    x, scale = ones(8, 4096, dtype="f32"), ones(4096, dtype="f32")
    flawed = run(scale_in_each_program, x, scale, kb.empty(x.shape, "f32"), grid=(8,), chip="one_pe")
    assert remedy_of(flawed, RULE).gain == pytest.approx(7 * 226.07 / flawed.latency_ns, rel=0.01)


def test_bytes_for_which_tcm_has_no_room_are_read_again() -> None:
    x, w = ones(64 * 8, 512), ones(512, 768)  # 768 KiB, and two of them do not fit
    assert RULE not in rules(run(weights_in_the_loop, x, w, kb.empty((64 * 8, 768), "f16"), 64, chip="one_pe"))


def test_bytes_that_kernels_write_are_read_again() -> None:
    def halve(tl, x, n: int) -> None:
        for _ in range(n):
            tl.store(x, tl.load(x) * 0.5)

    assert RULE not in rules(run(halve, kb.zeros((1, 4096), "f32"), 8, chip="one_pe"))
