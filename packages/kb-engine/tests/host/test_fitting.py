"""`Host.fitted`: blocks are halved until the values of a kernel fit TCM, and its sums half of the register file."""

import pytest

from kb_engine.host.fitting import Limit, fitted_sizes


def square(nbytes):
    return Limit(nbytes, lambda m, n, k: 4 * m * n)


def steps(nbytes):
    return Limit(nbytes, lambda m, n, k: 2 * (m + n) * k)


TWO_SLICES = ("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 2")
INTERLEAVED = ("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\nhbm_interleave_nbytes: 256")
MOST = {"m": 256, "n": 256, "k": 128}
NONE = dict.fromkeys(MOST)


@pytest.mark.parametrize(
    ("limits", "given", "expected"),
    [
        ([square(1 << 18), steps(1 << 17)], NONE, (256, 256, 128)),  # both fit to the byte
        ([square((1 << 18) - 1)], NONE, (256, 128, 128)),  # of equal sizes the last
        ([square(1 << 16)], NONE, (128, 128, 128)),
        ([square(1 << 17)], {**NONE, "n": 256}, (128, 256, 128)),  # a size that was given stays
        ([steps(1 << 16)], NONE, (128, 128, 128)),  # 256 x 128 need 98,304 bytes
        ([square(1 << 14), steps(1 << 13)], NONE, (64, 64, 32)),
        ([square(3)], NONE, (1, 1, 128)),  # smaller steps do not help
        ([square(16)], {**NONE, "m": 100}, (100, 1, 128)),  # beyond the limit, and as small as helps
        ([square(0)], {"m": 7, "n": 5, "k": 3}, (7, 5, 3)),
    ],
)
def test_the_largest_size_that_helps_is_halved_until_all_limits_hold(limits, given, expected):
    assert tuple(fitted_sizes(limits, given, MOST).values()) == expected


def test_a_host_fits_7_8_of_the_smallest_tcm_and_half_of_the_smallest_register_file(toy_host):
    host = toy_host()
    tcm, registers = host.tcm_nbytes, host.register_nbytes
    assert tcm == min(pe.tcm.nbytes for pe in host.engine.pes.values()) > 0
    most = 1 << 40
    found = host.fitted(lambda rows: rows, rows=(None, most))
    assert found["rows"] <= tcm * 7 // 8 < 2 * found["rows"]
    assert host.choices == found
    sums = host.fitted(lambda rows: 0, lambda rows: rows, rows=(None, most))
    assert sums["rows"] <= registers // 2 < 2 * sums["rows"]
    assert host.fitted(lambda rows: rows, rows=(most, 1)) == {"rows": most}
    assert host.choices == sums  # nothing was chosen


@pytest.mark.parametrize(
    ("shape", "dtype", "blocks"),
    [
        ((64, 1024), "f16", (2, 1)),  # 128 KiB on two slices
        ((2, 4096), "f16", (2, 1)),
        ((1, 4096), "f16", (1, 2)),  # 8 KiB of one row, two times 4 KiB
        ((4096,), "f16", (1, 2)),
        ((4095,), "f16", (1, 1)),  # less than twice 4 KiB
        ((3, 1000), "f16", (1, 1)),
        ((2, 8, 512), "f16", (2, 1)),
    ],
)
def test_a_tensor_lies_over_all_slices_in_blocks_of_4_kib_or_more(toy_host, shape, dtype, blocks):
    host = toy_host(TWO_SLICES)
    assert host.num_slices == 2
    assert host.spread(shape, dtype) == blocks
    tensor = host.empty("x", shape, dtype, host.spread(shape, dtype))
    assert len({matrix.owner for _, matrix in tensor.every_block()}) == max(blocks)


def test_a_tensor_is_one_block_where_the_chip_interleaves_its_slices_or_has_one(toy_host):
    assert toy_host().spread((64, 1024), "f16") == (1, 1)
    host = toy_host(TWO_SLICES, INTERLEAVED)
    assert (host.num_slices, host.spread((64, 1024), "f16")) == (2, (1, 1))
