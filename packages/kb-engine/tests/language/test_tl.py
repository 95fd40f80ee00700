"""Each way to misuse `tl`, with the whole message."""

import numpy as np
import pytest

from kb_engine.observe import Callbacks
from kb_engine.program import TcmFullError
from kb_messages import MATH_FUNCTIONS, KernelError, TileShape


def load_no_tensor(tl, a, c):
    tl.load(3)


def store_to_no_tensor(tl, a, c):
    tl.store(tl.load(a), tl.load(a))


def store_of_a_number(tl, a, c):
    tl.store(c, 1.5)


def store_of_a_written_result(tl, a, c):
    tl.store(c, tl.composite("gemm", a, a, out=c))


def store_of_another_shape(tl, a, c):
    tl.store(c[0:8], tl.load(a))


def store_of_another_dtype(tl, a, c):
    tl.store(c, tl.load(a.tensor.ref))


def composite_of_another_op(tl, a, c):
    tl.composite("softmax", a, a)


def composite_of_a_sum(tl, a, c):
    tl.composite("add", a, a, epilogue=(tl.relu(),))


def composite_of_one(tl, a, c):
    tl.composite("add", a, out=c)


def gemm_of_one(tl, a, c):
    tl.composite("gemm", a, out=c)


def math_tile_of_three(tl, a, c):
    tl.composite("exp", a, out=c, tile=(8, 8, 8))


def math_of_a_tensor(tl, a, c):
    tl.exp(a)


def math_of_text(tl, a, c):
    tl.maximum(tl.load(a), "0")


def math_of_numbers(tl, a, c):
    tl.maximum(1, 2.0)


def reduction_of_no_axis(tl, a, c):
    tl.sum(tl.load(a), axis=2)


def shapes_apart(tl, a, c):
    tl.load(a) + tl.load(a[0:8])


def composite_with_an_epilogue(tl, a, c):
    tl.composite("gemm", a, a, epilogue=("bias",))


def epilogue_of_one_op(tl, a, c):
    tl.composite("gemm", a, a, epilogue=tl.load)


def epilogue_of_no_group(tl, a, c):
    tl.composite("gemm", a, a, epilogue=(tl.dequant(a, scope="k_tile", group="all"),))


def epilogue_at_no_scope(tl, a, c):
    tl.composite("gemm", a, a, epilogue=(tl.relu(scope="tile"),))


def epilogue_with_a_number(tl, a, c):
    tl.composite("gemm", a, a, epilogue=(tl.bias(3),))


def epilogue_of_no_dtype(tl, a, c):
    tl.composite("gemm", a, a, epilogue=(tl.cast("f12"),))


def composite_of_a_number(tl, a, c):
    tl.composite("gemm", 2, a)


def composite_of_a_written_result(tl, a, c):
    tl.composite("gemm", a, tl.composite("gemm", a, a, out=c))


def composite_into_a_number(tl, a, c):
    tl.composite("gemm", a, a, out=3)


def tile_of_two(tl, a, c):
    tl.composite("gemm", a, a, tile=(16, 16))


def tile_of_nothing(tl, a, c):
    tl.composite("gemm", a, a, tile=(16, 0, 16))


def tile_of_fractions(tl, a, c):
    tl.composite("gemm", a, a, tile=(16, 1.5, 16))


def tile_of_text(tl, a, c):
    tl.composite("gemm", a, a, tile="16x16")


def wait_for_a_tensor(tl, a, c):
    tl.wait(a)


def free_of_a_tensor(tl, a, c):
    tl.free(a)


def free_of_a_written_result(tl, a, c):
    tl.free(tl.composite("gemm", a, a, out=c))


def free_too_early(tl, a, c):
    tl.free(tl.composite("gemm", a, a))


def free_twice(tl, a, c):
    for handle in [tl.load(a)] * 2: tl.free(handle)  # noqa: E701 - one line that both calls stand in  # fmt: skip


def second_axis(tl, a, c):
    tl.program_id(1)


def second_axis_of_programs(tl, a, c):
    tl.num_programs(axis=2)


def tcm_that_is_full(tl, a, c):
    [tl.load(a) for _ in range(300)]


COMPOSITES = ", ".join(repr(name) for name, each in MATH_FUNCTIONS.items() if each.is_elementwise and each.arity < 3)
OUT_OF_TCM = (
    "sip0.cube0.pe0.pe_tcm: got a request for 512 bytes, needs at most 0 in one piece (0 of 131072 are free, "
    f"test_tl.py:{tcm_that_is_full.__code__.co_firstlineno + 1} holds 131072); keep fewer values "
    "at a time, or smaller ones"
)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (load_no_tensor, "got tl.load of an int, needs a slice of a tensor argument"),
        (store_to_no_tensor, "got tl.store of a LoadedTensor, needs a slice of a tensor argument"),
        (
            store_of_a_number,
            (
                "got tl.store of a float, needs a loaded tensor, or a composite's result in TCM (out=None); "
                "tl.full(shape, number, dtype) makes one"
            ),
        ),
        (
            store_of_a_written_result,
            "got tl.store of a CompositeHandle, needs a loaded tensor, or a composite's result in TCM (out=None)",
        ),
        (
            store_of_another_shape,
            "got tl.store of 16 x 16 f16 to c[0:8, 0:16] of 8 x 16 f16, needs equal shapes and dtypes",
        ),
        (
            composite_of_another_op,
            f"got tl.composite('softmax'), needs 'gemm', {COMPOSITES}",
        ),
        (composite_of_a_sum, "got an epilogue of a composite 'add', needs none: a gemm alone has one"),
        (composite_of_one, "got tl.composite('add') of 1 arguments, needs 2"),
        (gemm_of_one, "got b = a NoneType, needs a slice of a tensor argument or a loaded tensor"),
        (math_tile_of_three, "got tile=(8, 8, 8), needs two positive integers (m, n)"),
        (math_of_a_tensor, "got tl.exp of a TensorRef, needs a loaded tensor; tl.load it, or use tl.composite"),
        (math_of_text, "got tl.maximum of a str, needs a tensor or a number"),
        (math_of_numbers, "got tl.maximum of numbers alone, needs a tensor among them"),
        (reduction_of_no_axis, "got tl.sum over axis 2, needs an axis from 0 to 1"),
        (shapes_apart, "got add of 16 x 16, 8 x 16, needs shapes that broadcast"),
        (composite_with_an_epilogue, "got a str in an epilogue, needs a tuple of ops like (tl.bias(row), tl.relu())"),
        (epilogue_of_one_op, "got a method in an epilogue, needs a tuple of ops like (tl.bias(row), tl.relu())"),
        (epilogue_of_no_group, "got tl.dequant with group='all', needs a number of elements along K"),
        (epilogue_at_no_scope, "got tl.relu with scope='tile', needs 'k_tile' or 'output_tile'"),
        (
            epilogue_with_a_number,
            "got the operand of tl.bias = an int, needs a slice of a tensor argument or a loaded tensor",
        ),
        (
            epilogue_of_no_dtype,
            "got dtype 'f12', needs one of f32, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, u16, u32, u64, bool",
        ),
        (composite_of_a_number, "got a = an int, needs a slice of a tensor argument or a loaded tensor"),
        (
            composite_of_a_written_result,
            "got b = a CompositeHandle, needs a slice of a tensor argument or a loaded tensor",
        ),
        (composite_into_a_number, "got tl.composite of an int, needs a slice of a tensor argument"),
        (tile_of_two, "got tile=(16, 16), needs three positive integers (m, n, k)"),
        (tile_of_nothing, "got tile=(16, 0, 16), needs three positive integers (m, n, k)"),
        (tile_of_fractions, "got tile=(16, 1.5, 16), needs three positive integers (m, n, k)"),
        (tile_of_text, "tile: got '16x16', needs three positive sizes MxNxK; write it like 128x128x128"),
        (wait_for_a_tensor, "got tl.wait of a TensorRef, needs a result of tl.composite, tl.load or tl.store_async"),
        (free_of_a_tensor, "got tl.free of a TensorRef, needs a handle that holds TCM"),
        (free_of_a_written_result, "got tl.free of a CompositeHandle, needs a handle that holds TCM"),
        (free_too_early, "got tl.free of a result on its way, needs a finished one; call tl.wait first"),
        (free_twice, "got a second tl.free of the same handle, needs one"),
        (second_axis, "got tl.program_id of axis 1, needs 0: a launch without a grid has one axis"),
        (second_axis_of_programs, "got tl.num_programs of axis 2, needs 0: a launch without a grid has one axis"),
        (tcm_that_is_full, OUT_OF_TCM),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_misuse_is_refused_at_the_kernels_line(toy_host, kernel, message):
    host = toy_host()
    a, c = (host.tensor(name, np.zeros((16, 16), np.float16), "f16") for name in "ac")
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, a, c)
    assert str(caught.value) == f"test_tl.py:{kernel.__code__.co_firstlineno + 1}: {message}"


def test_a_full_tcm_says_how_much_was_asked_and_free(toy_host):
    host = toy_host()
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    with pytest.raises(TcmFullError) as caught:
        host.launch(lambda tl, a: [tl.load(a) for _ in range(300)] and None, a)
    assert (caught.value.required, caught.value.limit) == (512, 0)


def test_store_of_another_dtype_is_refused(toy_host):
    host = toy_host()
    a, c = (
        host.tensor("a", np.zeros((16, 16), np.float32), "f32"),
        host.tensor("c", np.zeros((16, 16), np.float16), "f16"),
    )
    with pytest.raises(KernelError) as caught:
        host.launch(store_of_another_dtype, a, c)
    assert str(caught.value) == (
        f"test_tl.py:{store_of_another_dtype.__code__.co_firstlineno + 1}: got tl.store of 16 x 16 f32 "
        "to c[0:16, 0:16] of 16 x 16 f16, needs equal shapes and dtypes; .to('f16') converts the value"
    )


def test_freed_tcm_is_used_again(toy_host):
    def kernel(tl, a):
        kept = [tl.load(a)]
        for _ in range(1000):
            kept.append(tl.load(a))
            tl.free(kept[-1])

    host = toy_host()
    host.launch(kernel, host.tensor("a", np.zeros((16, 16), np.float16), "f16"))


@pytest.mark.parametrize("tile", [(8, 16, 4), TileShape(8, 16, 4), "8x16x4"])
def test_a_tile_is_given_in_three_ways(toy_host, tile):
    plans = []
    host = toy_host(observers=[Callbacks(on_issue=lambda command: plans.append(command.plan))])
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    host.launch(lambda tl, a: tl.composite("gemm", a, a, out=a, tile=tile), a)
    assert plans[0].grid == (2, 1, 4)


@pytest.mark.parametrize(
    ("dtype", "kind", "result"), [(np.float16, "f16", "f16"), (np.int8, "i8", "i32"), (np.float32, "f32", "f32")]
)
def test_a_result_that_stays_has_the_operands_type_and_integers_their_accumulators(toy_host, dtype, kind, result):
    seen = []
    host = toy_host()
    a = host.tensor("a", np.zeros((16, 16), dtype), kind)
    host.launch(lambda tl, a: seen.append(tl.composite("gemm", a, a)), a)
    assert (seen[0].dtype, seen[0].shape) == (result, (16, 16))


def test_a_vector_is_loaded_as_a_vector(toy_host):
    seen = []
    host = toy_host()
    a = host.tensor("a", np.arange(9, dtype=np.int32), "i32")
    host.launch(lambda tl, a: seen.append(tl.load(a[2:5])), a)
    assert seen[0].shape == (3,)
    assert [int(each) for each in seen[0]] == [2, 3, 4]
    assert len(seen[0]) == 3
