import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.host.sharding import block_bounds
from kb_engine.program.values.tensors import Tensor
from kb_messages import DType, KernelError

BASE = 1 << 40


def tensor(shape, down=1, along=1, dtype=DType.I32):
    """Blocks lie 4096 bytes apart."""
    rows, cols = (1, shape[0]) if len(shape) == 1 else shape
    return Tensor(
        name="a",
        shape=shape,
        dtype=dtype,
        row_bounds=block_bounds(rows, down),
        col_bounds=block_bounds(cols, along),
        addresses=tuple(tuple(BASE + (i * along + j) * 4096 for j in range(along)) for i in range(down)),
    )


ends = st.one_of(st.none(), st.integers(-14, 14))
keys = st.one_of(st.builds(slice, ends, ends), st.integers(-12, 11))


def like(array, key):
    """numpy's answer; None where nothing is left, the index is out of range, or there are too many indices."""
    try:
        found = array[key]
    except IndexError:
        return None
    return found if found.size else None


def elements(ref, array):
    """What the matrix that *ref* stands for holds, when *array* lies packed at BASE."""
    m = ref.matrix()
    flat, width = array.reshape(-1), m.stride // m.dtype.nbytes
    first = (m.address - BASE) // m.dtype.nbytes
    rows = [flat[first + row * width : first + row * width + m.cols] for row in range(m.rows)]
    return np.array(rows).reshape(ref.shape)


@given(st.one_of(keys, st.tuples(keys), st.tuples(keys, keys)), st.one_of(st.none(), keys))
def test_slices_of_a_matrix_are_numpys(key, then):
    array = np.arange(7 * 11).reshape(7, 11)
    expected, ref = like(array, key), tensor((7, 11)).ref
    if expected is None:
        with pytest.raises(KernelError):
            ref[key]
        return
    ref = ref[key]
    if then is not None:
        expected = like(expected, then)
        if expected is None:
            with pytest.raises(KernelError):
                ref[then]
            return
        ref = ref[then]
    np.testing.assert_array_equal(elements(ref, array), expected)


@given(keys)
def test_slices_of_a_vector_are_numpys(key):
    array = np.arange(9)
    expected, ref = like(array, key), tensor((9,)).ref
    if expected is None:
        with pytest.raises(KernelError):
            ref[key]
    else:
        np.testing.assert_array_equal(elements(ref[key], array), expected)


def test_ends_are_cut_to_the_edge():
    assert tensor((7, 11)).ref[5:100, -3:].shape == (2, 3)


def test_a_part_of_a_block_is_a_rectangle_in_it():
    # Blocks of 4 x 3: element (5, 4) is element (1, 1) of block (1, 1), the fourth of two a row.
    m = tensor((8, 6), down=2, along=2).ref[5:7, 4:6].matrix()
    assert (m.address, m.rows, m.cols, m.stride) == (BASE + 3 * 4096 + 12 + 4, 2, 2, 12)


def message(ref, key):
    with pytest.raises(KernelError) as caught:
        ref[key].matrix()
    return str(caught.value)


A = tensor((8, 6), down=2, along=2).ref


@pytest.mark.parametrize(
    ("ref", "key", "expected"),
    [
        (A, slice(0, 8, 0), "a[0:8, 0:6]: got the slice slice(0, 8, 0), needs integers, and a step that is not 0"),
        (A, slice(6, 2, 2), "a[0:8, 0:6]: got an empty slice 6:2 of 8 elements, needs at least one element"),
        (A, (slice(None, None, 2), 6), "a[0:8, 0:6]: got index 6 of 6 elements, needs -6 to 5"),
        (
            A,
            np.array([True] * 8),
            ("a[0:8, 0:6]: got the index array([ True,  True,  True,  True,  True,  True,  True,  True]), "
            "needs integers, slices of integers, or integers that are known while the kernel runs"),
        ),
        (
            A,
            (np.arange(2), np.arange(3)),
            "a[0:8, 0:6]: got lists of indices of 2, 3, needs shapes that broadcast",
        ),
        (
            A[np.array([1, 5, 2])],
            np.array([0, 1]),
            "a (3 x 6 of 8 x 6): got a second list of indices, needs one; index once, by all lists together",
        ),
        (
            A,
            slice(0, 8, 2),
            ("a (4 x 6 of 8 x 6): got elements that are no rectangle, needs adjacent elements of adjacent rows; "
            "tl.load it, which takes elements anywhere"),
        ),
        (A, slice(3, 3), "a[0:8, 0:6]: got an empty slice 3:3 of 8 elements, needs at least one element"),
        (A, 8, "a[0:8, 0:6]: got the index 8 of 8 elements, needs -8 to 7"),
        (A, (0, -7), "a[0:8, 0:6]: got the index -7 of 6 elements, needs -6 to 5"),
        (A, (0, 0, 0), "a[0:8, 0:6]: got 3 indices, needs at most 2"),
        (A, "x", "a[0:8, 0:6]: got the index 'x', needs integers or slices of integers"),
        (A, slice(0, 1.5), "a[0:8, 0:6]: got the index slice(0, 1.5, None), needs integers or slices of integers"),
        (
            A,
            (slice(3, 5), slice(0, 2)),
            ("a[3:5, 0:2]: got a slice over several blocks (cut at rows (0, 4, 8), columns (0, 3, 6)), needs "
            "one inside a block; split the access at the block's edge or allocate the tensor with other `blocks`"),
        ),
        (
            A,
            (slice(0, 2), slice(2, 4)),
            ("a[0:2, 2:4]: got a slice over several blocks (cut at rows (0, 4, 8), columns (0, 3, 6)), needs "
            "one inside a block; split the access at the block's edge or allocate the tensor with other `blocks`"),
        ),
        (tensor((9,)).ref, (0, 0), "a[0:9]: got 2 indices, needs at most 1"),
        (tensor((9,)).ref, slice(4, 2), "a[0:9]: got an empty slice 4:2 of 9 elements, needs at least one element"),
    ],
)  # fmt: skip
def test_wrong_slices_are_refused(ref, key, expected):
    assert message(ref, key) == expected


def test_an_integer_drops_its_dimension_of_a_matrix_and_of_a_vector():
    ref = tensor((8, 6)).ref
    assert [ref[key].shape for key in (3, (3, slice(None)), (slice(1, 4), 2), (3, 2))] == [(6,), (6,), (3,), ()]
    assert tensor((9,)).ref[4].shape == ()
    # The elements are one rectangle of the tensor, as they are with a slice of one element.
    assert ref[3].matrix() == ref[3:4].matrix()
    assert ref[1:4, 2].matrix() == ref[1:4, 2:3].matrix()
    assert ref[3, 2].matrix() == ref[3:4, 2:3].matrix()


def test_a_dropped_dimension_takes_no_further_index():
    ref = tensor((8, 6)).ref
    assert ref[3][2:5].matrix() == ref[3:4, 2:5].matrix()
    assert ref[1:4, 2][1].matrix() == ref[2:3, 2:3].matrix()
    with pytest.raises(KernelError, match=r"^a\[3, 0:6\]: got 2 indices, needs at most 1$"):
        ref[3][2, 0]
    with pytest.raises(KernelError, match=r"^a\[3, 2\]: got 1 indices, needs at most 0$"):
        ref[3, 2][0]


def test_every_index_of_a_row_and_of_a_column():
    ref = tensor((8, 6)).ref
    assert [each.data().tolist() for each in ref[3, 1:4].every_index().dimensions] == [[3, 3, 3], [1, 2, 3]]
    assert [each.data().tolist() for each in ref[1:4, 2].every_index().dimensions] == [[1, 2, 3], [2, 2, 2]]
    assert ref[3, 1:4].every_index().limits == ((3, 4), (1, 4))
    # Lists of indices of a row, which is a vector.
    assert ref[3][np.array([5, 0])].every_index().dimensions[1].tolist() == [5, 0]
    assert ref[1:4, 2][::2].shape == (2,)


def test_numpy_integers_are_indices():
    ref = tensor((8, 6)).ref
    assert ref[np.int64(2), np.int32(3)].matrix() == ref[2, 3].matrix()


def test_text_names_the_tensor_and_the_part():
    assert str(A) == "a[0:8, 0:6]"
    assert str(A[1:3, 2]) == "a[1:3, 2]"
    assert str(A[1]) == "a[1, 0:6]"
    assert str(A[-1, 2]) == "a[7, 2]"
    assert str(tensor((9,)).ref[4:]) == "a[4:9]"


def test_a_part_has_its_own_shape_and_the_dtype_of_the_tensor():
    assert (A[2:5, 1:2].shape, A.dtype) == ((3, 1), DType.I32)
    assert tensor((9,)).ref[3:5].shape == (2,)
