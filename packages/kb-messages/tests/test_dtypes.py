import pytest

from kb_messages.dtypes import DTYPE_BY_CODE, DType, Overflow

FLOATS = [DType.F32, DType.F16, DType.BF16, DType.F8E4M3, DType.F8E5M2]
INTEGERS = [dtype for dtype in DType if dtype not in FLOATS]


@pytest.mark.parametrize(
    ("dtype", "nbytes", "unit_roundoff", "smallest_subnormal"),
    [
        # stored fraction bits f, smallest normal exponent e: roundoff 2^-(f+1), smallest subnormal 2^(e-f)
        (DType.F32, 4, 2.0**-24, 2.0 ** (-126 - 23)),
        (DType.F16, 2, 2.0**-11, 2.0 ** (-14 - 10)),
        (DType.BF16, 2, 2.0**-8, 2.0 ** (-126 - 7)),
        (DType.F8E4M3, 1, 2.0**-4, 2.0 ** (-6 - 3)),
        (DType.F8E5M2, 1, 2.0**-3, 2.0 ** (-14 - 2)),
    ],
)
def test_a_float_has_the_precision_of_its_format(
    dtype: DType, nbytes: int, unit_roundoff: float, smallest_subnormal: float
) -> None:
    assert dtype.nbytes == nbytes
    assert dtype.info.unit_roundoff == unit_roundoff
    assert dtype.info.smallest_subnormal == smallest_subnormal


@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_is_exact_and_wraps(dtype: DType) -> None:
    assert not dtype.is_float
    assert dtype.info.unit_roundoff == 0.0
    assert dtype.info.smallest_subnormal == 0.0
    assert dtype.info.overflow is Overflow.WRAP


@pytest.mark.parametrize(("bits", "names"), [(8, "i8 u8"), (16, "i16 u16"), (32, "i32 u32"), (64, "i64 u64")])
def test_an_integer_is_as_wide_as_its_name_says(bits: int, names: str) -> None:
    assert [DType(name).nbytes for name in names.split()] == [bits // 8] * 2


def test_only_the_8_bit_floats_saturate() -> None:
    assert {dtype for dtype in DType if dtype.info.overflow is Overflow.SATURATE} == {DType.F8E4M3, DType.F8E5M2}


@pytest.mark.parametrize("dtype", DType)
def test_floats_add_up_in_f32_and_integers_in_i32(dtype: DType) -> None:
    assert dtype.accumulator is (DType.F32 if dtype in FLOATS else DType.I32)


def test_codes_in_the_log_never_change() -> None:
    names = "f32 f16 bf16 f8e4m3 f8e5m2 i8 i16 i32 i64 u8 u16 u32 u64 bool"
    assert [DTYPE_BY_CODE[code].value for code in range(14)] == names.split()
    assert len(DTYPE_BY_CODE) == len(DType)
