"""`tl.dot_scaled`: elements of few bits with scales, against numpy in float64; and other products of narrow types."""

import ml_dtypes
import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""Source: OCP Microscaling Formats (MX) 1.0, table 5."""
KINDS = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16, "fp16": np.float16,
}  # fmt: skip


@triton.jit
def scaled(
    a, sa, b, sb, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr, H: tl.constexpr,
    of_a: tl.constexpr, of_b: tl.constexpr, two_a: tl.constexpr, two_b: tl.constexpr,
):  # fmt: skip
    m, n, g, h = tl.arange(0, M), tl.arange(0, N), tl.arange(0, G), tl.arange(0, H)
    ka, kb = tl.arange(0, K // two_a), tl.arange(0, K // two_b)
    x = tl.load(a + m[:, None] * (K // two_a) + ka[None, :])
    y = tl.load(b + n[None, :] * (K // two_b) + kb[:, None])
    scale = tl.load(sa + m[:, None] * G + g[None, :])
    other = None if sb is None else tl.load(sb + n[:, None] * H + h[None, :])
    acc = tl.full([M, N], 1.0, tl.float32)
    tl.store(out + m[:, None] * N + n[None, :], tl.dot_scaled(x, scale, of_a, y, other, of_b, acc))


def elements(name, rows, k, rng):
    """Stored elements, and what they are."""
    if name != "e2m1":
        found = rng.standard_normal((rows, k)).astype(KINDS[name])
        return found, found.astype(np.float64)
    codes = rng.integers(0, 256, (rows, k // 2)).astype(np.uint8)
    return codes, np.stack([E2M1[codes & 15], E2M1[codes >> 4]], axis=-1).reshape(rows, k)


def repeated(scales, k):
    powers = np.where(scales == 255, np.nan, 2.0 ** (scales.astype(np.float64) - 127))
    return np.repeat(powers, k // scales.shape[1], axis=1)


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e2m1", "bf16"), ("e5m2", "e4m3"), ("fp16", "e5m2")],
)
@pytest.mark.parametrize("groups", [(2, 4), (4, 2)])
def test_products_of_scaled_formats_are_numpys(of_a, of_b, groups):
    rng = np.random.default_rng(3)
    m, n, k = 16, 8, 64
    (a, x), (b, y) = elements(of_a, m, k, rng), elements(of_b, n, k, rng)
    sa, sb = (rng.integers(120, 132, (rows, each)).astype(np.uint8) for rows, each in zip((m, n), groups, strict=True))
    out = np.zeros((m, n), np.float32)
    twos = (2 if each == "e2m1" else 1 for each in (of_a, of_b))
    scaled[1,](a, sa, b, sb, out, m, n, k, *groups, of_a, of_b, *twos)
    expected = (x * repeated(sa, k)) @ (y * repeated(sb, k)).T + 1
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_the_scale_255_is_nan_the_scale_0_is_the_least_and_none_is_one():
    rng = np.random.default_rng(4)
    (a, x), (b, y) = elements("e2m1", 8, 32, rng), elements("e4m3", 8, 32, rng)
    sa = np.full((8, 1), 127, np.uint8)
    sa[2], sa[3] = 255, 0
    out = np.zeros((8, 8), np.float32)
    scaled[1,](a, sa, b.view(np.uint8), None, out, 8, 8, 32, 1, 1, "e2m1", "e4m3", 2, 1)
    expected = (x * repeated(sa, 32)) @ y.T + 1
    assert np.isnan(expected[2]).all()
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-4)


@triton.jit
def packed_along_rows(a, sa, b, out, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M // 2), tl.arange(0, K)
    rows = tl.arange(0, M)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * M + rows[None, :])
    scale = tl.load(sa + rows[:, None])
    tl.store(
        out + rows[:, None] * M + rows[None, :], tl.dot_scaled(x, scale, "e2m1", y, None, "bf16", lhs_k_pack=False)
    )


def test_elements_may_be_packed_along_the_rows():
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 256, (8, 32)).astype(np.uint8)
    x = np.stack([E2M1[codes & 15], E2M1[codes >> 4]], axis=1).reshape(16, 32)
    y = rng.standard_normal((32, 16)).astype(ml_dtypes.bfloat16)
    sa, out = rng.integers(125, 130, (16, 1)).astype(np.uint8), np.zeros((16, 16), np.float32)
    packed_along_rows[1,](codes, sa, y, out, 16, 32)
    np.testing.assert_allclose(out, (x * repeated(sa, 32)) @ y.astype(np.float64), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("e3m2", "bf16", 2), "got lhs in the format e3m2, needs e2m1, e4m3, e5m2, bf16, fp16"),
        (("e4m3", "bf16", 2), "got lhs of fp16 in the format e4m3, needs fp8e4nv, or its bits"),
        (("fp16", "bf16", 8), "got lhs_scale of a block of 16 x 8 uint8, needs 16 x 2 or 16 x 4"),
    ],
)
def test_operands_that_do_not_fit_are_refused(given, sentence):
    of_a, of_b, groups = given
    a, b = np.zeros((16, 64), np.float16), np.zeros((8, 64), ml_dtypes.bfloat16)
    scales = np.zeros((16, groups), np.uint8)
    with pytest.raises(KernelError) as caught:
        scaled[1,](a, scales, b, None, np.zeros((16, 8), np.float32), 16, 8, 64, groups, 1, of_a, of_b, 1, 1)
    assert sentence in str(caught.value)


@triton.jit
def moved(x, y, z, n, m, A: tl.constexpr, B: tl.constexpr):
    i, j, half = tl.arange(0, A)[:, None], tl.arange(0, B)[None, :], tl.arange(0, 2)
    inside = (i < n) & (j < m)
    v = tl.load(x + i * m + j, mask=inside, other=0.0)
    tl.store(y + i * m + j, tl.trans(tl.trans(v)), mask=inside)
    turned = tl.permute(tl.reshape(v, [A // 2, 2, B]), 1, 0, 2)
    places = half[:, None, None] * (A // 2 * B) + tl.arange(0, A // 2)[None, :, None] * B + j[None]
    tl.store(z + places, turned)


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_floats_of_8_bits_are_masked_and_turned(kind):
    x = np.random.default_rng(6).standard_normal((13, 11)).astype(kind)
    y, z = np.zeros_like(x), np.zeros((2, 8, 16), kind)
    moved[1,](x, y, z, 13, 11, 16, 16)
    whole = np.zeros((16, 16), np.uint8)
    whole[:13, :11] = x.view(np.uint8)
    assert (y.view(np.uint8) == x.view(np.uint8)).all()
    assert (z.view(np.uint8) == whole.reshape(8, 2, 16).transpose(1, 0, 2)).all()


@triton.jit
def product(a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@pytest.mark.usefixtures("lenient")  # Triton multiplies int8 of 32 or more columns
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_products_of_bytes_are_exact(kind):
    a, b = np.random.default_rng(7).integers(np.iinfo(kind).min, np.iinfo(kind).max, (2, 16, 16)).astype(kind)
    out = np.zeros((16, 16), np.int32)
    product[1,](a, b, out, 16)
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))
