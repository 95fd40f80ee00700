"""What an author's methods may answer, and what is refused in a sentence."""

import ml_dtypes
import numpy as np
import pytest

from kb_cli.benchmark.code.author_results import (
    MOST_FLOPS,
    check_array,
    check_benchmark_name,
    check_names,
    checked_count,
    checked_tolerance,
)
from kb_messages import BenchmarkError

AT = "b.py: f()"


@pytest.mark.parametrize("answer", [0, 64, 2**63 - 1, np.int64(64), np.uint8(64), 64.0, np.float32(64)])
def test_whole_numbers_are_flops(answer: object) -> None:
    found = checked_count(AT, answer, MOST_FLOPS)
    assert type(found) is int
    assert found == answer


@pytest.mark.parametrize(
    "answer",
    [10**400, -(10**400), -1, 2**63, 1.5, float("nan"), float("inf"), np.float64("nan"), 1e300, -2.0,
     "64", b"64", None, True, np.bool_(1), [64], np.array([64]), np.array(64), object(), 1j],
)  # fmt: skip
def test_other_numbers_and_no_numbers_are_no_flops(answer: object) -> None:
    with pytest.raises(BenchmarkError, match=r"^b.py: f\(\): got .{1,40}, needs a whole number from 0 to 2\*\*63 - 1$"):
        checked_count(AT, answer, MOST_FLOPS)


@pytest.mark.parametrize("name", ["gemm", "a b", "a.b-c_d", "größe", "x" * 100, "a..b"])
def test_names_that_print_are_names(name: str) -> None:
    assert check_benchmark_name(AT, name) == name


@pytest.mark.parametrize(
    "name",
    [5, None, "", " ", "a/b", "a\\b", "../../x", "..", ".", ".a", "/", "\x1b[31mred", "a\nb", "\0", "\ud800", "\u202e",
     "x" * 101, "x" * 5000, ["small"], object(), b"x"],
)  # fmt: skip
def test_names_that_steer_a_terminal_or_a_path_are_refused(name: object) -> None:
    with pytest.raises(BenchmarkError) as caught:
        check_benchmark_name(AT, name)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_names_of_outputs_are_texts_that_print() -> None:
    check_names(AT, {"c": 1, "a/b": 2})
    for name in (5, "", "\x1b[31m", "x" * 101, ("a",)):
        with pytest.raises(BenchmarkError, match=r"needs texts of 1 to 100 characters that print$"):
            check_names(AT, {name: 1})


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "g", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_arrays_of_numbers_are_taken(dtype: object) -> None:
    array = np.zeros((2, 3), dtype)  # type: ignore[call-overload]
    assert check_array(AT, "x", array) is array


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (np.zeros(3, object), "object for x"),
        (np.zeros(3, complex), "complex128 for x"),
        (np.zeros(3, "U3"), "<U3 for x"),
        (np.zeros(3, "S3"), "|S3 for x"),
        (np.zeros(3, "M8[s]"), "datetime64[s] for x"),
        (np.zeros(3, "m8[s]"), "timedelta64[s] for x"),
        (np.zeros(3, [("a", "f4")]), "[('a', '<f4')] for x"),
        (np.zeros(3, "V4"), "|V4 for x"),
        (np.zeros(3, ">f4"), ">f4 for x, in another byte order"),
        (np.ma.masked_all(3), "MaskedArray for x"),
        (np.zeros((2, 2)).view(np.matrix), "matrix for x"),
        ([1, 2], "list for x"),
        (np.float32(3), "float32 for x"),
        (None, "NoneType for x"),
    ],
)
def test_other_arrays_are_refused(array: object, got: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        check_array(AT, "x", array)
    assert str(caught.value).startswith(f"{AT}: got {got}, needs ")


def test_tolerances_are_numbers_of_0_or_more() -> None:
    one, reference = np.asarray(0.5), np.zeros((2, 2))
    assert checked_tolerance(AT, "c", one, reference) == one
    for bad, shown in ((np.inf, "inf"), (np.nan, "nan"), (-1, "-1.0"), (-np.inf, "-inf")):
        for error in (np.asarray(bad), np.array([[0, 0], [0, bad]])):
            with pytest.raises(BenchmarkError) as caught:
                checked_tolerance(AT, "c", error, reference)
            assert str(caught.value) == f"{AT}: got {shown} for c, needs numbers of 0 or more, none of them infinite"
    for other in (np.zeros(2, object), np.zeros(2, complex), np.array("x")):
        with pytest.raises(BenchmarkError, match="needs numbers of 0 or more"):
            checked_tolerance(AT, "c", other, reference)


def test_a_tolerance_does_not_count_where_the_reference_is_no_number() -> None:
    reference = np.array([1.0, np.inf, np.nan])
    found = checked_tolerance(AT, "c", np.array([0.5, np.inf, np.nan]), reference)
    np.testing.assert_array_equal(found, [0.5, 0, 0])
