"""Places of results in a full TCM, every address by hand."""

import pytest

from kb_engine.language.vector.places import Stretch, places_among

FREE, HELD = True, False
A, B, C = Stretch(0, 256, HELD), Stretch(256, 512, HELD), Stretch(1024, 1280, HELD)


@pytest.mark.parametrize(
    ("stretches", "sizes", "apart", "expected"),
    [
        # A result takes free bytes if there are enough, and the bytes of the lowest input otherwise.
        ([A, Stretch(2048, 2112, FREE)], [64], True, [2048]),
        ([C, A, Stretch(2048, 2112, FREE)], [128], True, [0]),
        # It takes fewer bytes of inputs where free bytes are adjacent.
        ([A, Stretch(960, 1024, FREE), C], [128], True, [960]),
        # A result lies over two adjacent inputs, and not over a gap.
        ([A, B, C], [512], True, [0]),
        ([B, C], [512], True, None),
        # Apart, each result has an input of its own; otherwise an input holds several, the largest first.
        ([A, C], [64, 128], True, [1024, 0]),
        ([A, C], [64, 128], False, [128, 0]),
        ([A], [64, 128], True, None),
        ([A], [64, 128, 64], False, [128, 0, 192]),
        ([A], [64, 128, 128], False, None),
        ([], [64], False, None),
        ([A], [], True, []),
    ],
)
def test_results_take_the_fewest_bytes_of_inputs(stretches, sizes, apart, expected):
    assert places_among(stretches, sizes, apart) == expected
