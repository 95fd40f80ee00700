"""Words become rows, and rows become words, wherever the words lie."""

import numpy as np
import pytest
from msgspec.structs import replace
from running import check_ops, run_ops, two_sips

from kb_messages import BenchmarkError
from kb_models.models.builder import Builder
from kb_models.ops import Head
from kb_topology import Topology


@pytest.mark.parametrize(
    ("topology", "layout", "rows", "dtype"),
    [
        ("one_pe", "", 2, "f32"),
        ("one_cube", "", 70, "bf16"),
        (two_sips(), "vocab=sip*cube", 9, "f16"),
        (two_sips(), "vocab=cube,batch=sip", 3, "f16"),
        (two_sips(), "", 1, "f16"),
    ],
)
def test_words_of_any_number(topology: Topology | str, layout: str, rows: int, dtype: str) -> None:
    """Tables of more and of fewer words than PEs, and widths that no PEs divide."""

    def build(m: Builder) -> None:
        m.embedding("words", rows, 501, 40)
        m.embedding("kinds", rows, 2, 7)
        x = m.input("x", (rows, 33), ("batch", ""))
        m.head("head", x, 1003)
        m.head("few", x, 5)

    check_ops(topology, layout, build, dtype)


def test_of_equal_words_the_lowest_is_chosen() -> None:
    """All products of a row of zeros are zero."""
    found = []

    def build(m: Builder) -> None:
        x = m.input("x", (3, 16), ("batch", ""))
        found.append(m.head("head", replace(x, content=lambda rng: np.zeros((3, 16), np.float16)), 300))

    ran = check_ops(two_sips(), "vocab=sip*cube", build)
    assert ran.read(found[0]).tolist() == [0, 0, 0]


def test_a_wrong_word_is_found_and_an_equal_one_is_right() -> None:
    """The reference takes the word of the chip where its product is the largest, as far as sums in f32 can tell."""
    made = []

    def build(m: Builder) -> None:
        m.head("head", m.input("x", (4, 64), ("batch", "")), 100)
        made.extend(m.ops)

    ran = run_ops("one_cube", "", build)
    (head,) = made
    assert isinstance(head, Head)
    given = {value.name: ran.read(value) for value in (*head.reads, *head.writes)}
    right, first = given["head"].copy(), given["head"][0]
    given["head"] = right.copy()
    given["head"][1] = (right[1] + 1) % 100
    assert head.reference(lambda value: given[value.name])["head"].tolist() == right.tolist()
    given["head"][1] = 100
    assert head.reference(lambda value: given[value.name])["head"].tolist() == right.tolist()
    twin = (first + 1) % 100
    given["head.w"] = given["head.w"].copy()
    given["head.w"][:, twin] = given["head.w"][:, first]
    given["head"] = np.array([twin, *right[1:]], np.int32)
    assert head.reference(lambda value: given[value.name])["head"][0] == twin


def test_rows_take_the_time_of_their_way() -> None:
    """A row of 4 KiB from a slice of 102.4 GB/s, to eight slices; the rest is latency. One row of one cube is shared by
    its PEs."""
    ran = run_ops("one_cube", "", lambda m: m.embedding("words", 8, 64, 2048))
    assert 4096 / 102.4 * 1000 < ran.latency_ps["words"] < 1_000_000


def test_other_words_take_another_time() -> None:
    """The numbers are loaded, and say which memories are read."""

    def time_ps(seed: int) -> int:
        ran = run_ops(two_sips(), "vocab=sip*cube", lambda m: m.embedding("words", 40, 64, 512), seed=seed)
        return ran.latency_ps["words"]

    assert len({time_ps(seed) for seed in range(3)}) > 1


def test_a_head_needs_all_features() -> None:
    def build(m: Builder) -> None:
        x = m.input("x", (2, 16), ("batch", "mlp"))
        Head("head", m.mesh, x, 10)

    with pytest.raises(BenchmarkError, match=r"op head: got x, of which each cube has some columns, .* gather x first"):
        run_ops(two_sips(), "mlp=cube", build)
