"""A memory of results is bounded."""

from kb_engine.language.vector.recorded import BoundedCache


def test_it_forgets_all_when_they_are_many():
    squares = BoundedCache()
    assert [squares.get(n) or squares.keep(n, n * n) for n in range(4096)] == [n * n for n in range(4096)]
    assert (len(squares), squares.get(7)) == (4096, 49)
    assert squares.keep(4096, 4096**2) == 4096**2
    assert (len(squares), squares.get(7)) == (1, None)
