"""Names that newer releases of Triton have, and pointers into one of several tensors."""

import copy
import pickle

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError
from kb_triton.language import libdevice


@triton.jit
def joins(x_ptr, y_ptr, z_ptr, out_ptr, sums_ptr, n_x, n_y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    of_tail = tl.where(at < n_x + n_y, y_ptr + at - n_x, z_ptr + at - n_x - n_y)
    pointers = tl.where(at < n_x, x_ptr + at, of_tail)
    values = tl.load(pointers, mask=at < BLOCK - 1, other=-1.0)
    tl.store(out_ptr + at, values)
    tl.store(pointers, values + 1, mask=at < BLOCK - 2)
    tl.store(sums_ptr + at, tl.atomic_add(pointers, 10.0, mask=at < BLOCK - 2), mask=at < BLOCK - 2)


def test_pointers_may_go_into_one_of_several_tensors():
    x, y, z = (np.arange(n, dtype=np.float32) + 100 * n for n in (3, 6, 7))
    whole = np.concatenate([x, y, z])
    out, sums = np.zeros(16, np.float32), np.zeros(16, np.float32)
    joins[(1,)](x, y, z, out, sums, 3, 6, BLOCK=16)
    np.testing.assert_array_equal(out, [*whole[:15], -1])
    np.testing.assert_array_equal(np.concatenate([x, y, z]), whole + 11 * (np.arange(16) < 14))
    np.testing.assert_array_equal(sums, (whole + 1) * (np.arange(16) < 14))


@triton.jit
def picks(flags_ptr, x_ptr, y_ptr, out_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.load(tl.where(tl.load(flags_ptr + pid) > 0, x_ptr, y_ptr) + pid))


def test_a_loaded_scalar_chooses_a_tensor():
    x, y, out = np.arange(4.0, dtype=np.float32), -np.arange(4.0, dtype=np.float32), np.zeros(4, np.float32)
    picks[(4,)](np.array([1, 0, 0, 1], np.int32), x, y, out)
    np.testing.assert_array_equal(out, [0, -1, -2, 3])


@triton.jit
def hands_over(data_ptr, flag_ptr, out_ptr):
    if tl.program_id(0) == 0:
        tl.store(data_ptr, 42.0)
        tl.atomic_store(flag_ptr, 7)
    else:
        tl.store(out_ptr + 1, tl.atomic_poll(flag_ptr, 7).to(tl.float32))
        tl.store(out_ptr, tl.load(data_ptr))
        tl.store(out_ptr + 2, tl.atomic_load(flag_ptr, sem="relaxed").to(tl.float32))


def test_a_program_polls_what_another_one_stores():
    out = np.zeros(3, np.float32)
    hands_over[(2,)](np.zeros(1, np.float32), np.zeros(1, np.int32), out)
    np.testing.assert_array_equal(out, [42, 1, 7])


@triton.jit
def polls_for_ever(flag_ptr):
    tl.atomic_poll(flag_ptr, 1)


@triton.jit
def polls_for_a_time(flag_ptr):
    tl.atomic_poll(flag_ptr, 1, timeout_ns=100)


@triton.jit
def loads_to_release(flag_ptr):
    tl.atomic_load(flag_ptr, sem="release")


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (polls_for_ever, r"kernels have polled the same bytes [\d,]+ times"),
        (polls_for_a_time, "got tl.atomic_poll with timeout_ns=100, needs None: kernels have no clock here"),
        (loads_to_release, "got tl.atomic_load with sem='release', needs one of 'acquire', 'relaxed'"),
    ],
)
def test_polls_and_orders_that_cannot_be_get_a_sentence(kernel, sentence):
    with pytest.raises(KbError, match=sentence):
        kernel[(1,)](np.zeros(1, np.int32))


@triton.jit
def calls_operators(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, n = tl.load(x_ptr + at), 0
    while tl.condition(n < 3, disable_licm=True):
        x = tl.add(tl.mul(x, 2, sanitize_overflow=False), tl.sub(at, 1))
        n += 1
    pair = tl.tuple([tl.expect_zero(x, at < 0), at])
    if isinstance(pair, tl.tuple):
        tl.store(out_ptr + at, pair[0])
    tl.store(out_ptr + N + at, tl.bitonic_merge(tl.where(at < N // 2, at, N - at), descending=True))
    tl.store(out_ptr + 2 * N + at, tl.cumprod(at % 3 + 1, dtype=tl.int64))
    tl.store(out_ptr + 3 * N + at, tl.atomic_add(x_ptr + at, x).item() if N == 1 else x)


def test_operators_as_functions():
    x = np.arange(8, dtype=np.int32)
    out, at = np.zeros((4, 8), np.int64), np.arange(8)
    calls_operators[(1,)](x, out, N=8)
    sums = (15 * at - 7).tolist()  # 2 (2 (2 x + x - 1) + x - 1) + x - 1 for x = at
    assert out.tolist() == [sums, [4, 3, 3, 2, 2, 1, 1, 0], np.cumprod(at % 3 + 1).tolist(), sums]


@tl._aggregate
class Span:
    first: tl.tensor
    step: tl.constexpr

    @triton.jit
    def at(self, index):
        return self.first + index * self.step

    @staticmethod
    @triton.jit
    def doubled(x):
        return 2 * x


@triton.jit
def spans(out_ptr, first):
    span = Span(first, 3)
    further = tl.aggregate_replace(span, step=5)
    at = tl.arange(0, 4)
    tl.store(out_ptr + at, span.at(at))
    tl.store(out_ptr + 4 + at, further.at(at))
    tl.store(out_ptr + 8 + at, Span.doubled(at) + span.doubled(1))


def test_aggregates_have_fields_and_methods():
    out = np.zeros((3, 4), np.int32)
    spans[(1,)](out, 10)
    assert out.tolist() == [[10, 13, 16, 19], [10, 15, 20, 25], [2, 4, 6, 8]]
    with pytest.raises(TypeError, match=r"tl.aggregate_replace: got int and \['step'\], needs an aggregate"):
        tl.aggregate_replace(3, step=1)
    with pytest.raises(TypeError, match=r"Span: got values of \['first'\], needs one of each of \['first', 'step'\]"):
        Span(1)


LOW, HIGH = -(1 << 31), (1 << 31) - 1


@triton.jit
def fills_with_infinity(x_ptr, out_ptr):
    at = tl.arange(0, 8)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < 4, other=float("-inf")))
    tl.store(out_ptr + 8 + at, tl.full([8], float("nan"), tl.int32))


@pytest.mark.usefixtures("lenient")  # integers take no float in Triton
def test_infinity_and_nan_among_integers_are_0():
    out = np.full(16, 9, np.int32)
    fills_with_infinity[(1,)](np.arange(1, 9, dtype=np.int32), out)
    assert out.tolist() == [1, 2, 3, 4] + [0] * 12


WORDS = np.array([0, 1, -1, 7, 12345, -98765, LOW, HIGH], np.int32)


@triton.jit
def of_integers(x_ptr, y_ptr, out_ptr, NAME: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, getattr(libdevice, NAME)(x, y, 0x7A30) if NAME == "byte_perm" else
             getattr(libdevice, NAME)(x, y, 5) if NAME == "sad" else getattr(libdevice, NAME)(x, y))  # fmt: skip


def permuted(x, y):
    """Bytes 0, 3, the sign of byte 2, and byte 7 of the eight bytes of y and x, as one word."""
    given = [*int(x & 0xFFFFFFFF).to_bytes(4, "little"), *int(y & 0xFFFFFFFF).to_bytes(4, "little")]
    chosen = [given[0], given[3], 255 if given[2] >= 128 else 0, given[7]]
    return int.from_bytes(bytes(chosen), "little", signed=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hadd", lambda x, y: (x + y) >> 1),
        ("rhadd", lambda x, y: (x + y + 1) >> 1),
        ("sad", lambda x, y: int(np.array(abs(x - y) + 5).astype(np.int32))),
        ("mulhi", lambda x, y: (x * y) >> 32),
        ("byte_perm", permuted),
    ],
)
def test_integer_functions_of_libdevice(name, expected):
    x, y = (each.ravel() for each in np.meshgrid(WORDS, WORDS))
    out = np.zeros(64, np.int64)
    of_integers[(1,)](x, y, out, NAME=name, N=64)
    assert out.tolist() == [expected(int(a), int(b)) for a, b in zip(x, y, strict=True)]


def test_the_upper_half_of_products_of_64_bits():
    x, y = (
        each.ravel() for each in np.meshgrid(*[np.array([3, -5, 1 << 62, -(1 << 63), (1 << 63) - 1, 0, 1, -1])] * 2)
    )
    out = np.zeros(64, np.int64)
    of_integers[(1,)](x, y, out, NAME="mulhi", N=64)
    assert out.tolist() == [(int(a) * int(b)) >> 64 for a, b in zip(x, y, strict=True)]


@pytest.mark.parametrize(
    ("module", "name", "fix"),
    [
        ("libdevice", "add_rz", "the chip rounds to nearest; use libdevice.add_rn"),
        ("libdevice", "double2int_rn", "the chip has no arithmetic on float64; use float32"),
        (
            "tl",
            "tuple_type",
            "it belongs to Triton's compiler, and nothing is compiled here; use functions in @triton.jit",
        ),
        ("tl", "mean", "use tl.sum, and divide by the number of elements"),
    ],
)
def test_names_that_are_missing_say_what_to_use(module, name, fix):
    with pytest.raises(AttributeError) as caught:
        getattr({"libdevice": libdevice, "tl": tl}[module], name)
    assert str(caught.value) == f"{module}: got {module}.{name}, needs a name that {module} has here; {fix}"


@triton.jit
def names_of_tensors(x_ptr, out_ptr, bits_ptr):
    at = tl.arange(0, 8)
    x = tl.load(x_ptr + at)
    (out_ptr + at).store(x, mask=at < 7)
    tl.store(out_ptr + 7, tl.load(x_ptr + tl.arange(0, 1)).item())
    tl.store(out_ptr + 8 + at, (x * x).sqrt_rn())
    tl.store(bits_ptr, at.reduce_or(0))
    tl.store(bits_ptr + 1, (at + 8).reduce_or(0, keep_dims=True).item())
    block = tl.make_block_ptr(out_ptr, (24,), (1,), (16,), (8,), (0,))
    block.store(2 * x)
    tl.store(bits_ptr + 2, tl.constexpr(3).logical_and(4))
    tl.store(bits_ptr + 3, tl.constexpr(0).logical_or(5))


def test_methods_of_tensors():
    x, out, bits = np.arange(1, 9, dtype=np.float32), np.zeros(24, np.float32), np.zeros(4, np.int32)
    names_of_tensors[(1,)](x, out, bits)
    assert out.tolist() == [1, 2, 3, 4, 5, 6, 7, 1, *x.tolist(), *(2 * x).tolist()]
    assert bits.tolist() == [7, 15, 4, 5]


@triton.jit
def item_of_two(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr + tl.arange(0, 2)).item())


@triton.jit
def load_of_a_pointer(x_ptr):
    tl.store(x_ptr, x_ptr.load())


@pytest.mark.usefixtures("lenient")  # the sentences are those of a program
@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (item_of_two, r"got item\(\) of a block of 2 fp32, needs a block of one element; use tl.sum"),
        (load_of_a_pointer, r"a tensor has no 'load': use tl.load\(pointer\)"),
    ],
)
def test_methods_that_cannot_be_say_what_to_use(kernel, sentence):
    with pytest.raises((KbError, AttributeError), match=sentence):
        kernel[(1,)](np.zeros(2, np.float32))


@triton.jit
def exponents_and_bessel_functions(x_ptr, n_ptr, power_ptr, j_ptr, y_ptr):
    at = tl.arange(0, 8)
    x = tl.load(x_ptr + at)
    tl.store(power_ptr + at, libdevice.ilogb(x))
    tl.store(j_ptr + at, libdevice.jn(2, x))
    tl.store(j_ptr + 8 + at, libdevice.jn(tl.load(n_ptr + at), 2.5))
    tl.store(y_ptr + at, libdevice.yn(3, x))
    tl.static_assert(libdevice.ilogb(x).dtype == tl.int32)


def test_ilogb_and_bessel_functions_of_any_order():
    x = np.array([0.0, np.nan, np.inf, -np.inf, 5.0, 0.75, -1e-45, 300.0], np.float32)
    n = np.arange(8, dtype=np.int32) - 1
    power, j, y = np.zeros(8, np.int32), np.zeros((2, 8), np.float32), np.zeros(8, np.float32)
    exponents_and_bessel_functions[(1,)](x, n, power, j, y)
    low, high = -(2**31), 2**31 - 1
    assert power.tolist() == [low, low, high, high, 2, -1, -149, 8]

    def bessel_j(order, z):  # Bessel's integral, by the mean over equal steps
        turns = np.arange(2048) * 2 * np.pi / 2048
        return np.cos(order * turns - z * np.sin(turns)).mean()

    finite = [0, 4, 5, 6, 7]
    np.testing.assert_allclose(j[0, finite], [bessel_j(2, float(each)) for each in x[finite]], rtol=2e-6, atol=1e-7)
    assert np.isnan(j[0, 1])
    assert j[0, [2, 3]].tolist() == [0, 0]
    assert np.isnan(j[1, 0])
    np.testing.assert_allclose(j[1, 1:], [bessel_j(order, 2.5) for order in range(7)], rtol=2e-6)
    assert y[4] == pytest.approx(0.1462671627, rel=1e-6)
    assert y[0] == -np.inf
    assert np.isnan(y[1])
    assert y[2] == 0
    assert np.isnan(y[3])
    assert np.isnan(y[6])


@triton.jit
def types_by_name(x_ptr, out_ptr):
    at = tl.arange(0, 8)
    x = tl.load(x_ptr + at)
    if x.dtype.kind() == tl.dtype.KIND.FLOATING:
        tl.store(out_ptr + at, x.to(tl.dtype("int32")) + tl.int8.get_int_max_value() + tl.int8.get_int_min_value())


def test_types_are_known_by_their_names():
    out = np.zeros(8, np.int32)
    types_by_name[(1,)](np.arange(8, dtype=np.float32), out)
    assert out.tolist() == list(range(-1, 7))
    assert tl.dtype("fp16") is tl.float16
    assert tl.dtype(tl.constexpr("bf16")) is tl.bfloat16
    assert tl.dtype("int1").kind() is tl.dtype.KIND.BOOLEAN
    assert tl.uint8.kind() is tl.dtype.KIND.INTEGRAL
    assert tl.uint16.get_int_max_value() == 65535
    assert tl.int64.get_int_min_value() == -(2**63)
    assert tl.int1.get_int_max_value() == 1
    assert tl.uint64.get_int_min_value() == 0
    assert tl.int32.int_signedness is tl.dtype.SIGNEDNESS.SIGNED
    assert tl.bfloat16.fp_mantissa_width == 7
    assert (tl.float16.exponent_bias, tl.float8e5.exponent_bias) == (15, 15)
    assert tl.dtype.is_dtype("fp8e4nv")
    assert not tl.dtype.is_dtype("float16")
    assert repr(tl.float16) == "triton.language.float16"
    assert repr(tl.bfloat16) == "triton.language.bfloat16"
    assert str(tl.float16) == "fp16"
    assert tl.uint8.mangle() == "u8"
    assert tl.int1.codegen_name() == "int1"
    assert tl.block_type(tl.float16, [2, 4]).nbytes == 16
    assert tl.pointer_type(tl.float32).mangle() == "Pfp32"
    assert tl.block_type(tl.float16, [2, 4]).with_element_ty(tl.int8).element_ty is tl.int8
    assert tl.str_to_ty("*ki64", None) == tl.pointer_type(tl.int64, const=True)
    assert tl.str_to_ty("u1", None) is tl.int1
    assert {*tl.dtype.SINT_TYPES, *tl.dtype.UINT_TYPES} >= {"int8", "uint64", "int1"}
    for kind in (tl.float16, tl.pointer_type(tl.int8), tl.block_type(tl.int8, [4])):
        assert copy.deepcopy(kind) == kind
        assert pickle.loads(pickle.dumps(kind)) == kind
    assert copy.deepcopy(tl.int1) is tl.int1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tl.dtype("float16"), r"got tl.dtype\('float16'\), needs one of int8, int16"),
        (lambda: tl.float16.get_int_max_value(), "got get_int_max_value of fp16, needs an integer type"),
        (lambda: tl.void.kind(), r"got kind\(\) of void, needs a type of elements"),
        (lambda: tl.str_to_ty("x7", None), r"got tl.str_to_ty\('x7'\), needs one of"),
    ],
)
def test_types_that_do_not_exist_get_a_sentence(call, sentence):
    with pytest.raises(KbError, match=sentence):
        call()
