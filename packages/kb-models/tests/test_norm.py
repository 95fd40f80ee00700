"""Norms and sums give the numbers of numpy for any rows, on any chip and layout."""

import pytest
from running import check_ops

from kb_messages import BenchmarkError
from kb_models.models.builder import Builder


def all_of(rows: int, width: int):
    """Builds each norm and each sum of activations of *rows* x *width*."""

    def build(m: Builder) -> None:
        x, y = (m.input(name, (rows, width), ("batch", "")) for name in "xy")
        m.rms_norm("rms", x, 1e-5)
        m.layer_norm("layer", x, 1e-5)
        stream, _ = m.add_norm("add_rms", x, y, 1e-6)
        m.add_norm("add_layer", stream, y, 1e-5, is_centred=True)
        m.plus("plus", x, y, "relu")
        for name in ("relu", "silu", "gelu", "tanh", "sigmoid"):
            m.activation(name, x, name)

    return build


@pytest.mark.parametrize(
    ("topology", "layout", "rows", "width", "dtype"),
    [
        ("one_cube", "", 1, 100, "f32"),
        ("one_cube", "", 9, 257, "bf16"),
        ("one_pe", "", 3, 65, "f16"),
        ("one_sip", "batch=cube", 17, 64, "f16"),
    ],
)
def test_norms_and_sums_of_any_rows(topology: str, layout: str, rows: int, width: int, dtype: str) -> None:
    check_ops(topology, layout, all_of(rows, width), dtype)


def test_a_layer_norm_of_rows_with_a_large_mean() -> None:
    """What the mean takes off is lost to f32, and the tolerance says how much."""

    def build(m: Builder) -> None:
        x, y = (m.input(name, (2, 300), ("batch", "")) for name in "xy")
        big = m.activation("big", m.plus("two", x, y), "sigmoid")
        m.layer_norm("layer", big, 1e-5)

    check_ops("one_cube", "", build, "f32")


def test_a_norm_takes_the_time_of_its_rows() -> None:
    """512 rows of 4096 f16 elements on 8 PEs: 64 rows each. A row takes, in groups of 128 lanes, 32 cycles for each of
    6 elementwise ops (to f32, square, two products, weight to f32 and to f16) and 39 for the sum, on PE_MATH alone."""
    ran = check_ops("one_cube", "", lambda m: m.rms_norm("norm", m.input("x", (512, 4096), ("batch", "")), 1e-5))
    math_ps = 64 * (6 * 32 + 39) * 1000
    assert math_ps < ran.latency_ps["norm"] < 1.2 * math_ps


def test_a_sum_that_is_wrong_by_a_hundredth_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from kb_models.ops import sums

    monkeypatch.setitem(sums.FUNCTIONS, "none", lambda tl, x: x * 1.01)
    with pytest.raises(AssertionError, match="plus: error"):
        check_ops("one_cube", "", lambda m: m.plus("plus", *(m.input(name, (9, 40), ("", "")) for name in "xy")))


def test_what_a_sum_refuses() -> None:
    def unequal(m: Builder) -> None:
        m.plus("plus", m.input("x", (16, 16), ("", "")), m.input("y", (16, 16), ("", "mlp")))

    with pytest.raises(BenchmarkError, match=r"op plus: got y of \(16, 16\) on .* needs terms of one shape"):
        check_ops("one_sip", "mlp=cube", unequal)
    with pytest.raises(BenchmarkError, match="the activation 'swish', needs one of none, relu, silu"):
        check_ops("one_cube", "", lambda m: m.activation("a", m.input("x", (1, 8), ("", "")), "swish"))
