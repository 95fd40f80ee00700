"""Numbers of a kernel have Triton's types: where they are assigned, merged and returned, and as arguments."""

import ml_dtypes
import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


@triton.jit
def assigned_integer(x, out):
    q = 3
    tl.store(out, tl.load(x) * q)


@pytest.mark.parametrize("kind", INTEGERS)
def test_an_assigned_integer_is_an_int32_beside_integers(kind):
    """int8 and int16 are promoted, and uint32 beside int32 is uint32. The product wraps in the common type."""
    x = np.array([np.iinfo(kind).max - 27], kind)
    common = kind if kind in ("int64", "uint32", "uint64") else "int32"
    out = np.zeros(1, common)
    assigned_integer[(1,)](x, out)
    assert out[0] == np.array(int(x[0]) * 3 % 2**64, np.uint64).astype(common)


@triton.jit
def assigned_float(x, out):
    c = 0.1
    tl.store(out, tl.load(x) * c)
    tl.store(out + 1, tl.load(x) * 0.1)


@pytest.mark.parametrize("kind", FLOATS)
def test_an_assigned_float_is_an_fp32_and_a_literal_follows_the_other_operand(kind):
    narrow, x = FLOATS[kind], np.array([3.0], FLOATS[kind])
    out = np.zeros(2, np.float32)
    assigned_float[(1,)](x, out)
    assert out[0] == np.float32(3) * np.float32(0.1)
    assert out[1] == np.float32(np.float32(3) * np.float32(narrow(0.1))).astype(narrow).astype(np.float32)


@triton.jit
def each_way(x, out, C: tl.constexpr):
    a, b = 0, 1.0
    tl.static_assert(a.dtype == tl.int32)
    tl.static_assert(b.dtype == tl.float32)
    both = (2, (3, 4.0))
    tl.static_assert(both[1][0].dtype == tl.int32)
    tl.static_assert(both[1][1].dtype == tl.float32)
    yes = True
    tl.static_assert(yes.dtype == tl.int1)
    k = C
    k += 1
    tl.store(out, tl.load(x) * k)
    tl.store(out + 1, tl.load(x) * (n := 2) + n * 100)
    named: tl.constexpr = 3
    later: tl.constexpr
    later = 5
    tl.store(out + 2, tl.load(x) * named)
    tl.store(out + 3, tl.load(x) * later)
    tl.store(out + 4, tl.load(x) * C)
    for each in tl.static_range(2, 3):
        tl.store(out + 5, tl.load(x) * each)
    typed: tl.int32 = 2
    tl.store(out + 6, tl.load(x) * typed)
    one: tl.constexpr = 2 if C > 1 else 3
    tl.store(out + 7, tl.load(x) * one)


def test_assignments_make_scalars_and_constexprs_stay_pythons():
    x, out = np.array([100], np.int8), np.zeros(8, np.int32)
    each_way[(1,)](x, out, 2)
    assert out.tolist() == [300, 400, 44, -12, -56, -56, 200, -56]


@triton.jit
def wide_integers(out):
    a = 2147483648
    tl.static_assert(a.dtype == tl.uint32)
    b = 4294967296
    tl.static_assert(b.dtype == tl.int64)
    c = 9223372036854775808
    tl.static_assert(c.dtype == tl.uint64)
    d = -2147483649
    tl.static_assert(d.dtype == tl.int64)
    tl.store(out, a * 2)
    tl.store(out + 1, b * b)
    tl.store(out + 2, d + 1)


def test_an_assigned_integer_takes_the_first_type_that_holds_it():
    out = np.zeros(3, np.int64)
    wide_integers[(1,)](out)
    assert out.tolist() == [0, 0, -(2**31)]


@triton.jit
def too_wide(out):
    n = 18446744073709551616
    tl.store(out, n)


@triton.jit
def beyond_fp32(x, out):
    c = 1e-40
    tl.store(out, tl.load(x) * c)


@pytest.mark.usefixtures("lenient")
def test_numbers_that_have_no_type_of_the_chip_are_refused():
    with pytest.raises(KernelError, match="an integer of 64 bits"):
        too_wide[(1,)](np.zeros(1, np.int64))
    with pytest.raises(KernelError, match=r"\* of tl.float64"):
        beyond_fp32[(1,)](np.ones(1, np.float32), np.zeros(1, np.float32))


@triton.jit
def arithmetic(out):
    q = -7
    two = 2
    tl.store(out, q // two)
    tl.store(out + 1, q % 4)
    tl.store(out + 2, q >> 1)
    tl.store(out + 3, 1 << two)
    tl.store(out + 4, -q)
    tl.store(out + 5, ~q)
    tl.store(out + 6, q < two)
    tl.store(out + 7, 65536 * (two * 32768))
    yes = True
    tl.store(out + 8, -yes)
    tl.store(out + 9, yes + yes)
    tl.store(out + 10, yes + 1)
    tl.store(out + 11, 7 // q)
    tl.store(out + 12, (2147483647 + two) // 2)


def test_scalars_compute_in_their_types():
    out = np.zeros(13, np.int64)
    arithmetic[(1,)](out)
    assert out.tolist() == [-3, -3, -4, 4, 7, 6, 1, 0, 1, 0, 2, -1, -(2**30) + 1]


@triton.jit
def carried(x, out, n):
    total = 0
    for i in range(n):
        total += tl.load(x + i)
    tl.store(out, total)
    left = 3
    power = 1
    while left > 0:
        power = power * 65537
        left -= 1
    tl.store(out + 1, power)
    factor = 1
    if n > 2:
        factor = 3
    else:
        factor = 4
    tl.store(out + 2, tl.load(x) * factor)
    tl.store(out + 3, tl.load(x) * (3 if n > 2 else 1))


def test_numbers_that_control_flow_carries_keep_their_type():
    x, out = np.full(10, 100, np.int8), np.zeros(4, np.int64)
    carried[(1,)](x, out, 10)
    assert out.tolist() == [1000, (65537**3 + 2**31) % 2**32 - 2**31, 300, 300]


@triton.jit
def carried_float(x, out, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x + i)
    tl.store(out, total)
    z = 16777216.0
    for _ in range(n):
        z += 1.0
    tl.store(out + 1, z)


@pytest.mark.parametrize("kind", FLOATS)
def test_a_sum_from_a_float_is_computed_in_fp32(kind):
    x, out = np.full(40, 1.125, FLOATS[kind]), np.zeros(2, np.float32)
    carried_float[(1,)](x, out, 40)
    assert out.tolist() == [45.0, 16777216.0]


@triton.jit
def by_run(flag):
    if flag > 0:
        return 3
    return 1


@triton.jit
def by_constant(C: tl.constexpr):
    if C:
        return 3
    else:
        return 1


@triton.jit
def behind(C: tl.constexpr):
    if C:
        return 3
    return 1


@triton.jit
def same(flag):
    if flag > 0:
        return 3
    return 3


@triton.jit
def pair(flag):
    if flag > 0:
        return 3, 3
    return 1, 3


@triton.jit
def calls(x, out, flag):
    tl.store(out, tl.load(x) * by_run(flag))
    tl.store(out + 1, tl.load(x) * by_constant(True))
    tl.store(out + 2, tl.load(x) * behind(True))
    tl.store(out + 3, tl.load(x) * same(flag))
    tl.store(out + 4, tl.load(x) * pair(flag)[0])
    tl.store(out + 5, tl.load(x) * pair(flag)[1])


def test_a_function_that_returns_different_numbers_returns_a_scalar():
    """Triton goes on behind an `if` of a constant whose body returns, so both numbers of `behind` count."""
    x, out = np.array([100], np.int8), np.zeros(6, np.int32)
    calls[(1,)](x, out, 2)
    assert out.tolist() == [300, 44, 300, 44, 300, 44]


@triton.jit
def blocks(x, out, B: tl.constexpr):
    at = tl.arange(0, B)
    two = 2
    c = 0.5
    a = tl.load(x + at)
    tl.store(out + at, a * two)
    tl.static_assert((a * two).dtype == tl.int32)
    tl.static_assert((a * 2).dtype == tl.int8)
    tl.static_assert((a * c).dtype == tl.float32)
    tl.static_assert(tl.maximum(a, two).dtype == tl.int32)
    tl.static_assert(tl.where(a > 0, a, two).dtype == tl.int32)


def test_a_scalar_beside_a_block_counts_as_a_tensor():
    x, out = np.array([100, -100, 127, 1], np.int8), np.zeros(4, np.int32)
    blocks[(1,)](x, out, 4)
    assert out.tolist() == [200, -200, 254, 2]


@triton.jit
def argument(x, n, out):
    tl.store(out, tl.load(x) * n)
    tl.store(out + 1, (n - 8) // 2)


@triton.jit(do_not_specialize=["n"])
def plain_argument(x, n, out):
    tl.store(out, (n - 8) // 2)


def test_the_integer_one_is_a_constant_as_triton_specializes_it():
    """The difference of constants is -7 of Python, which // rounds down. A scalar is rounded toward zero."""
    x, out = np.array([100], np.int8), np.zeros(2, np.int32)
    argument[(1,)](x, 3, out)
    assert out.tolist() == [300, -2]
    argument[(1,)](x, 1, out)
    assert out.tolist() == [100, -4]
    plain_argument[(1,)](x, 1, out)
    assert out[0] == -3


@triton.jit
def typed_argument(n, out):
    tl.store(out, n * 2)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**31 - 1, "int32"), (-(2**31), "int32"), (2**31, "int64"), (2**32 - 1, "int64"), (2**63 - 1, "int64"),
        (-(2**31) - 1, "int64"), (2**63, "uint64"), (2**64 - 1, "uint64"),
    ],
)  # fmt: skip
def test_an_integer_argument_has_the_first_of_three_types(value, kind):
    out = np.zeros(1, np.uint64)
    typed_argument[(1,)](value, out)
    assert out[0] == np.array(value * 2 % 2**64, np.uint64).astype(kind).astype(np.uint64)


def annotated(annotation):
    def kernel(n, out):
        tl.store(out, n + n)

    kernel.__annotations__["n"] = annotation
    return triton.jit(kernel)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("written", ["type", "text", "short"])
def test_an_annotation_states_the_type_of_an_integer(kind, written):
    short = kind.replace("uint", "u").replace("int", "i")
    kernel = annotated({"type": getattr(tl, kind), "text": f"tl.{kind}", "short": short}[written])
    assert kernel.params[0].annotation_type == short
    for value in (1, 100, np.iinfo(kind).max):
        out = np.zeros(1, np.uint64)
        kernel[(1,)](int(value), out)
        assert out[0] == np.array(2 * int(value) % 2**64, np.uint64).astype(kind).astype(np.uint64)


@pytest.mark.parametrize(
    ("annotation", "want"),
    [
        (tl.float16, np.float16(0.1)), ("fp16", np.float16(0.1)), ("bf16", np.float32(0.099609375)),
        (tl.float32, np.float32(0.1)), (float, np.float32(0.1)),
    ],
)  # fmt: skip
def test_an_annotation_states_the_type_of_a_float(annotation, want):
    """Triton's launcher cuts the bits of an argument that bf16 does not have: 0.1 is 0.0996, and to nearest 0.1001."""
    out = np.zeros(1, np.float32)
    annotated(annotation)[(1,)](0.1, out)
    assert out[0] == np.float32(want) * 2


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize(
    ("annotation", "value"), [(tl.uint32, -1), (tl.int32, 1.5), (tl.float32, "text"), (int, np.zeros(1))]
)
def test_an_argument_that_its_annotation_does_not_hold_is_refused(annotation, value):
    with pytest.raises(KernelError, match="argument n, which is annotated as"):
        annotated(annotation)[(1,)](value, np.zeros(1, np.float32))


def test_a_wider_integer_wraps_in_the_annotated_type():
    out = np.zeros(1, np.int64)
    annotated(tl.int8)[(1,)](300, out)
    assert out[0] == 88
    annotated(bool)[(1,)](True, out)
    assert out[0] == 0


@pytest.mark.parametrize("value", [np.int64(3), np.int32(1), np.uint8(3), np.float32(1.5), np.bool_(True)])
def test_a_number_of_numpy_is_refused_as_triton_refuses_it(value, device):
    x, out = np.array([100], np.int8), np.zeros(2, np.float32)
    with pytest.raises(
        KernelError, match=f"argument n: got a numpy.{type(value).__name__} .* needs a number of Python"
    ):
        argument[(1,)](x, value, out)
    device.lenient = True
    typed_argument[(1,)](value, out)
    assert out[0] == (2 if isinstance(value, np.bool_) else 2 * value)


def test_a_float64_of_numpy_is_a_float():
    out = np.zeros(1, np.float32)
    typed_argument[(1,)](np.float64(0.1), out)
    assert out[0] == np.float32(0.1) * 2


@triton.jit
def from_zero(a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    total = 0.0
    total += tl.dot(tl.load(a + at), tl.load(b + at))
    tl.store(out + at, total)


@triton.jit
def from_nothing(a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    total = tl.dot(tl.load(a + at), tl.load(b + at))
    tl.store(out + at, total)


def test_a_product_added_to_a_named_zero_takes_no_more_time(device):
    a, took = np.ones((16, 16), np.float32), []
    for kernel in (from_zero, from_nothing):
        out, before_ps = np.zeros_like(a), device.elapsed_ps
        kernel[(1,)](a, a, out, 16)
        took.append(device.elapsed_ps - before_ps)
        assert (out == 16).all()
    assert took[0] == took[1]


@triton.jit
def assigned_constants(x, out, B: tl.constexpr):
    n = B
    axis = 0
    at = tl.arange(0, n)
    rows, columns = tl.reshape(at, (2, n // 2)).shape
    total = tl.sum(tl.load(x + at), axis) + tl.sum(tl.zeros((rows, columns), tl.int32), axis=axis).shape[0]
    for each in tl.static_range(rows):
        total += each
    tl.store(out, total)


@pytest.mark.usefixtures("lenient")
def test_an_assigned_number_is_a_size_where_refusals_of_the_compiler_are_off():
    out = np.zeros(1, np.int32)
    assigned_constants[(1,)](np.ones(8, np.int32), out, 8)
    assert out[0] == 8 + 4 + 1
