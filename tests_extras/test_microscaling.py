"""Tensors in microscaling formats: their codes, and a product of them by `tl.dot_scaled` beside torch."""

import numpy as np
import pytest
import torch

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError
from kb_triton.shims.microscaling import MXFP4Tensor, MXScaleTensor, fp8e8m0_to_float32

ELEMENTS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def test_elements_round_to_the_nearest_and_to_even_codes_between_two():
    values = torch.tensor([0.0, 0.25, 0.26, 0.75, 1.25, 2.5, 2.6, 5.0, 7.0, 1e9, torch.inf, -0.74, -5.1])
    expected = torch.tensor([0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0, 4.0, 6.0, 6.0, 6.0, -0.5, -6.0])
    assert torch.equal(MXFP4Tensor(values).to(torch.float32), expected)
    every = torch.tensor(ELEMENTS + [-each for each in ELEMENTS])
    assert MXFP4Tensor(every).data.tolist() == list(range(16))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_codes_are_packed_along_an_axis(dim):
    codes = MXFP4Tensor(size=(5, 3, 7)).random()
    packed = codes.to_packed_tensor(dim)
    assert packed.shape[dim] == -(-codes.data.shape[dim] // 2)
    assert torch.equal(packed.select(dim, 0), codes.data.select(dim, 0) + 16 * codes.data.select(dim, 1))
    assert torch.equal(codes.unpack_packed_tensor(packed, dim, (5, 3, 7)), codes.data)


def test_scales_are_powers_of_two():
    values = torch.tensor([1.0, 3.99, 0.3, 2.0**127, 0.0, -1.0, torch.inf, torch.nan])
    assert MXScaleTensor(values).data.tolist() == [127, 128, 125, 254, 255, 255, 255, 255]
    powers = fp8e8m0_to_float32(torch.tensor([0, 127, 254, 255], dtype=torch.uint8)).tolist()
    assert powers[:3] == [2.0**-127, 1.0, 2.0**127]
    assert np.isnan(powers[3])
    drawn = MXScaleTensor(size=(500,)).random(low=0.25, high=4.0).to(torch.float64)
    assert sorted({*drawn.tolist()}) == [0.25, 0.5, 1.0, 2.0, 4.0]


def test_what_gives_no_tensor_is_refused():
    with pytest.raises(KernelError) as caught:
        MXFP4Tensor()
    assert str(caught.value) == "MXFP4Tensor: got no data and no size, needs a tensor of floats, or a size"
    with pytest.raises(KernelError) as caught:
        MXScaleTensor(size=3).random(low=2.0, high=1.0)
    assert str(caught.value) == "MXScaleTensor.random: got low=2.0, high=1.0, needs a low that is not above high"
    for codes in (MXFP4Tensor(size=4), MXScaleTensor(size=4)):
        with pytest.raises(
            KernelError, match="got a size without elements, needs random\\(\\) before elements are read"
        ):
            codes.to(torch.float32)
    with pytest.raises(KernelError, match=r"^MXFP4Tensor: got a size without elements"):
        MXFP4Tensor(size=4).to_packed_tensor(0)


@pytest.mark.parametrize("name", ["low", "high"])
@pytest.mark.parametrize("end", [0.0, -1.0, 2.0**128, float("inf"), float("nan")])
def test_an_end_without_a_power_of_two_is_refused(name, end):
    with pytest.raises(KernelError) as caught:
        MXScaleTensor(size=4).random(**{name: end})
    assert str(caught.value) == f"MXScaleTensor.random: got {name}={end}, needs a number above 0 and below 2^128"


def test_the_largest_and_smallest_ends():
    assert {*MXScaleTensor(size=9).random(low=2.0**127).data.tolist()} == {254}
    assert {*MXScaleTensor(size=9).random(high=1e-50).data.tolist()} == {0}


@triton.jit
def scaled_product(a, a_scales, b, b_scales, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, halves, blocks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 2), tl.arange(0, K // 32)
    left = tl.load(a + rows[:, None] * (K // 2) + halves[None, :])
    right = tl.load(b + columns[:, None] * (K // 2) + halves[None, :])
    left_scales = tl.load(a_scales + rows[:, None] * (K // 32) + blocks[None, :])
    right_scales = tl.load(b_scales + columns[:, None] * (K // 32) + blocks[None, :])
    product = tl.dot_scaled(left, left_scales, "e2m1", right.T, right_scales, "e2m1")
    tl.store(out + rows[:, None] * N + columns[None, :], product)


def test_a_product_of_such_tensors():
    m, n, k = 32, 16, 64
    a, b = MXFP4Tensor(size=(m, k)).random(), MXFP4Tensor(size=(n, k)).random()
    scales = [MXScaleTensor(size=(rows, k // 32)).random(low=0.5, high=8.0) for rows in (m, n)]
    out = torch.empty(m, n)
    packed = a.to_packed_tensor(dim=1), b.to_packed_tensor(dim=1)
    scaled_product[1,](packed[0], scales[0].data, packed[1], scales[1].data, out, M=m, N=n, K=k)
    wide = [
        each.to(torch.float64) * scale.to(torch.float64).repeat_interleave(32, 1)
        for each, scale in zip((a, b), scales, strict=True)
    ]
    torch.testing.assert_close(out.double(), wide[0] @ wide[1].T, rtol=1e-6, atol=1e-6)
