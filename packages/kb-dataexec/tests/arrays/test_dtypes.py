import math

import ml_dtypes
import numpy as np
import pytest

from kb_dataexec.arrays import dtypes
from kb_dataexec.arrays.dtypes import cast, cast_into, numpy_dtype
from kb_messages import DType


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_has_a_numpy_type_of_its_size(dtype):
    assert numpy_dtype(dtype).itemsize == dtype.nbytes


def test_f8e4m3_is_the_finite_variant():
    assert numpy_dtype(DType.F8E4M3) == np.dtype(ml_dtypes.float8_e4m3fn)


def test_a_cast_to_the_same_type_is_the_array_itself():
    array = np.ones(3, np.float32)
    assert cast(array, DType.F32) is array


@pytest.mark.parametrize("worth_threads", [1, 1 << 20])
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("dtype", list(DType))
def test_a_cast_into_an_array_is_the_cast(dtype, source, worth_threads, monkeypatch):
    monkeypatch.setattr(dtypes, "_WORTH_THREADS", worth_threads)
    values = (np.random.default_rng(0).standard_normal((6, 5)) * 1000).astype(source)
    whole = np.zeros((8, 8), numpy_dtype(dtype))
    cast_into(whole[1:7, 2:7], values, dtype)
    assert np.array_equal(whole[1:7, 2:7], cast(values, dtype))
    assert np.count_nonzero(whole) == np.count_nonzero(whole[1:7, 2:7])


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (DType.F16, 70000.0, math.inf),
        (DType.BF16, -3.4e38, -math.inf),
        (DType.F8E4M3, 1000.0, 448.0),
        (DType.F8E4M3, -math.inf, -448.0),
        (DType.F8E5M2, 1e9, 57344.0),
        (DType.F8E5M2, math.inf, 57344.0),
        (DType.F16, 2049.0, 2048.0),
        (DType.F16, 2051.0, 2052.0),
        (DType.F8E4M3, 17.0, 16.0),
        (DType.F8E4M3, 19.0, 20.0),
        (DType.I8, 300.0, 44),
        (DType.I8, 2.9, 2),
        (DType.I8, -3.9, -3),
        (DType.U8, -0.9, 0),
        (DType.I32, -(2.0**31) - 0.5, -(2**31)),
        (DType.U8, -1.0, 255),
        (DType.I32, 2.0**31, -(2**31)),
        (DType.I64, -(2.0**63), -(2**63)),
        (DType.U64, 2.0**63, 2**63),
        (DType.I16, math.inf, 0),
        (DType.I16, math.nan, 0),
        (DType.BOOL, 0.5, True),
    ],
)
def test_casts_to_floats_round_to_even_and_to_integers_toward_zero(dtype, value, expected):
    assert cast(np.array([value]), dtype)[0] == expected


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F8E4M3, DType.F8E5M2])
def test_nan_stays_nan(dtype):
    assert np.isnan(cast(np.array([math.nan], np.float32), dtype).astype(np.float32))[0]


def test_integers_wrap():
    assert cast(np.array([300, -129]), DType.I8).tolist() == [44, 127]


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        # 2^60 + 2^36 is halfway between two f32 numbers. The last bit decides, and f64 does not have it.
        (DType.F32, 2**60 + 2**36 + 1, 2.0**60 + 2.0**37),
        (DType.F32, 2**60 + 2**36, 2.0**60),
        (DType.F32, 2**60 + 3 * 2**36 - 1, 2.0**60 + 2.0**37),
        (DType.F32, 2**62 + 2**38 - 1, 2.0**62),
        (DType.BF16, 2**60 + 2**52 + 1, 2.0**60 + 2.0**53),
        (DType.BF16, 2**60 + 2**52, 2.0**60),
        (DType.BF16, 2**60 + 3 * 2**52 - 1, 2.0**60 + 2.0**53),
        (DType.BF16, 2**24 + 2**16 + 1, 2.0**24 + 2.0**17),
        (DType.F16, 2049, 2048.0),
        (DType.F16, 2**62, math.inf),
    ],
)
@pytest.mark.parametrize("kind", [np.int64, np.uint64, "negative"])
def test_integers_of_64_bits_round_once(kind, dtype, value, expected):
    given = np.array([-value], np.int64) if kind == "negative" else np.array([value], kind)
    assert cast(given, dtype).astype(np.float64)[0] == (-expected if kind == "negative" else expected)


@pytest.mark.parametrize(("dtype", "expected"), [(DType.F32, 2.0**63 + 2.0**40), (DType.BF16, 2.0**63)])
def test_integers_from_2_to_the_63_round_once(dtype, expected):
    assert cast(np.array([2**63 + 2**39 + 1], np.uint64), dtype).astype(np.float64)[0] == expected


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize(("dtype", "bits"), [(DType.F32, 24), (DType.BF16, 8)])
def test_random_integers_of_64_bits_round_to_the_nearest(dtype, bits, kind):
    low = -(2**63) if kind == np.int64 else 0
    given = np.random.default_rng(1).integers(low, np.iinfo(kind).max, 2000, kind)
    for value, found in zip(given.tolist(), cast(given, dtype).astype(np.float64).tolist(), strict=True):
        unit = 2 ** max(0, abs(value).bit_length() - bits)
        quotient, rest = divmod(abs(value), unit)
        quotient += 2 * rest > unit or (2 * rest == unit and quotient % 2)
        assert abs(found) == quotient * unit


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_f64_to_bf16_rounds_once(sign):
    # 1 + 2^-8 is halfway between two bf16 numbers; the bit far below decides, and f32 would drop it.
    value = np.array([sign * (1.0 + 2.0**-8 + 2.0**-40)])
    assert cast(value, DType.BF16).astype(np.float64)[0] == sign * (1.0 + 2.0**-7)


def test_large_integers_to_f16_round_once():
    # 2^15 + 16 is halfway between 32768 and 32800.
    assert cast(np.array([2**15 + 16, 2**15 + 17]), DType.F16).astype(float).tolist() == [32768.0, 32800.0]


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F8E4M3, DType.F8E5M2])
def test_every_finite_value_survives_the_way_through_f32(dtype):
    codes = np.arange(1 << (8 * dtype.nbytes)).astype(f"u{dtype.nbytes}").view(numpy_dtype(dtype))
    values = codes.astype(np.float32)
    finite = np.isfinite(values)
    assert (cast(values[finite], dtype).astype(np.float32) == values[finite]).all()
