"""`x.T` and `tl.trans(x)`: their elements, their commands, and calls that refuse them."""

import numpy as np
import pytest

from kb_engine.program.values.tensors import Tensor
from kb_messages import DType, GemmCommand, KernelError

NEEDS = "needs one as it is stored: only a and b of tl.dot and of tl.composite('gemm') may be transposed"
SWAP = "compute the result the other way round: (a @ b).T is b.T @ a.T"


def reference(rows, cols):
    return Tensor(
        name="a",
        shape=(rows, cols),
        dtype=DType.F16,
        row_bounds=(0, rows),
        col_bounds=(0, cols),
        addresses=((4096,),),
    ).ref


def test_a_transposed_reference_is_sliced_as_it_is_seen():
    a = reference(8, 20)
    assert a.T.shape == (20, 8)
    assert a.T.dtype is DType.F16
    assert str(a.T[4:10, 1:3]) == "a[1:3, 4:10].T"
    assert a.T[4:10, 1:3].shape == (6, 2)
    assert str(a.T[4:10]) == "a[0:8, 4:10].T"
    assert str(a.T[4:10, 2]) == "a[2, 4:10]"
    assert a.T[4].shape == (8,)
    assert str(a.T[-1, 2]) == "a[2, 19]"


def test_the_transpose_of_a_transpose_is_the_stored_matrix():
    a = reference(8, 20)
    assert a.T.T is a
    assert a.T[4:10, 1:3].T.matrix() == a[1:3, 4:10].matrix()


def test_three_indices_of_a_transposed_reference_are_refused():
    with pytest.raises(KernelError, match=r"^a\[0:8, 0:20\]\.T: got 3 indices, needs at most 2$"):
        reference(8, 20).T[0, 0, 0]


def test_a_slice_over_blocks_names_the_stored_slice():
    with pytest.raises(KernelError, match=r"^a\[0:8, 0:20\]: got an empty slice 30:20 of 20 elements, needs "):
        reference(8, 20).T[30:20]


@pytest.fixture
def commands(toy_host, monkeypatch):
    """Runs a kernel with a (16 x 32), b (16 x 32) and c (32 x 32), and gives the GEMMs it orders."""

    def run(kernel):
        host = toy_host()
        (pe,) = host.engine.pes.values()
        plan, found = pe.scheduler.plan, []

        def planned(submitted):
            if isinstance(submitted.command, GemmCommand):
                found.append(submitted.command)
                raise KernelError("here", "a command", "no more")
            return plan(submitted)

        monkeypatch.setattr(pe.scheduler, "plan", planned)
        arrays = [np.arange(16 * 32, dtype=np.float16).reshape(16, 32)] * 2 + [np.zeros((32, 32), np.float16)]
        tensors = [host.tensor(name, array, "f16") for name, array in zip("abc", arrays, strict=True)]
        with pytest.raises(KernelError, match="got a command, needs no more"):
            host.launch(kernel, *tensors)
        return found

    return run


@pytest.mark.parametrize(
    ("kernel", "transposed", "pinned"),
    [
        (lambda tl, a, b, c: tl.composite("gemm", a.T, b, out=c), (True, False), (False, False)),
        (lambda tl, a, b, c: tl.composite("gemm", a, b.T, out=c[:16, :16]), (False, True), (False, False)),
        (lambda tl, a, b, c: tl.composite("gemm", c, tl.trans(b), out=c[:, :16]), (False, True), (False, False)),
        (lambda tl, a, b, c: tl.composite("gemm", tl.load(a).T, b, out=c), (True, False), (True, False)),
        (lambda tl, a, b, c: tl.dot(tl.trans(tl.load(a)), tl.load(b)), (True, False), (True, True)),
        (lambda tl, a, b, c: tl.dot(tl.load(a), tl.load(b).T), (False, True), (True, True)),
        (lambda tl, a, b, c: tl.dot(tl.trans(tl.load(a).T), tl.load(b).T), (False, True), (True, True)),
    ],
    ids=["a", "b", "trans", "loaded a", "dot a", "dot b", "twice"],
)
def test_a_factor_is_ordered_as_it_is_stored(commands, kernel, transposed, pinned):
    (command,) = commands(kernel)
    assert (command.transpose_a, command.transpose_b) == transposed
    assert (command.a_pinned, command.b_pinned) == pinned
    assert (command.a.cols, command.b.cols) == (32, 32)


def test_a_dot_is_one_tile_of_the_shape_that_is_seen(commands):
    (command,) = commands(lambda tl, a, b, c: tl.dot(tl.load(a[:, :8]).T, tl.load(b)))
    assert (command.tile.m, command.tile.n, command.tile.k) == (8, 32, 16)
    assert (command.out.rows, command.out.cols) == (8, 32)


def test_a_result_that_stays_in_tcm_has_the_shape_that_is_seen(commands):
    (command,) = commands(lambda tl, a, b, c: tl.composite("gemm", a[:, :8].T, b))
    assert (command.out.rows, command.out.cols) == (8, 32)


def test_b_stream_is_part_of_the_order(commands):
    (command,) = commands(lambda tl, a, b, c: tl.composite("gemm", a.T, b, out=c, b_stream=True))
    assert command.b_stream


def test_known_elements_are_read_transposed(toy_host):
    seen = []
    host = toy_host()
    array = np.arange(6, dtype=np.float16).reshape(2, 3)

    def kernel(tl, a):
        x = tl.load(a)
        seen.extend([x.T.shape, x.T[2, 1], x.T.data.tolist(), x.T.dtype, x.T.T is x])

    host.launch(kernel, host.tensor("a", array, "f16"))
    assert seen == [(3, 2), 5.0, array.T.tolist(), DType.F16, True]


def load_it(tl, a, v):
    tl.load(a.T)


def store_there(tl, a, v):
    tl.store(a.T, tl.load(a))


def write_there(tl, a, v):
    tl.composite("gemm", a, a, out=a.T)


def bias_of_it(tl, a, v):
    tl.composite("gemm", a, a, out=a, epilogue=(tl.bias(a.T),))


def composite_of_it(tl, a, v):
    tl.composite("add", a.T, a, out=a)


def compared(tl, a, v):
    return a.T == 1


def of_a_number(tl, a, v):
    tl.trans(3)


def of_a_vector(tl, a, v):
    return v.T


def of_a_loaded_vector(tl, a, v):
    return tl.load(v).T


def free_it(tl, a, v):
    tl.free(tl.load(a).T)


def stream_of_a_sum(tl, a, v):
    tl.composite("add", a, a, out=a, b_stream=True)


FIRST = "give the tensor the shape (1, n)"
REFUSED = [
    (load_it, f"got tl.load of a transposed tensor, {NEEDS}; tl.load it as it is stored and pass its .T to them"),
    (store_there, f"got tl.store of a transposed tensor, {NEEDS}; {SWAP}"),
    (write_there, f"got out = a transposed tensor, {NEEDS}; {SWAP}"),
    (bias_of_it, f"got the operand of tl.bias = a transposed tensor, {NEEDS}"),
    (composite_of_it, f"got tl.composite('add') of a transposed tensor, {NEEDS}"),
    (compared, f"a TransposedRef: got an operator on a transposed tensor, {NEEDS}"),
    (of_a_number, "got tl.trans of an int, needs a tensor"),
    (of_a_vector, f"v[0:16].T: got the transpose of a tensor of one dimension, needs two dimensions; {FIRST}"),
    (
        of_a_loaded_vector,
        f"the .T of a LoadedTensor: got the transpose of a tensor of one dimension, needs two dimensions; {FIRST}",
    ),
    (free_it, "got tl.free of a TransposedHandle, needs a handle that holds TCM"),
    (stream_of_a_sum, "got b_stream of a composite 'add', needs none: a gemm alone streams its b"),
]


@pytest.mark.parametrize(("kernel", "message"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_elsewhere_it_is_refused_at_the_kernels_line(toy_host, kernel, message):
    host = toy_host()
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    v = host.tensor("v", np.zeros(16, np.float16), "f16")
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, a, v)
    assert str(caught.value) == f"test_transposed.py:{kernel.__code__.co_firstlineno + 1}: {message}"
