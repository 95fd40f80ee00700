"""Convolutions, depthwise convolutions and pools give the numbers of numpy, on any chip and layout.

Their references are compared with the definition, element by element, where a case is small.
"""

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from running import check_ops, chip, run_ops, two_sips
from sampled_cases import sampled

from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Part
from kb_models.models.builder import Builder
from kb_models.ops import ImageConvolution, Images, Window
from kb_models.ops.images.window import Source, sources_of

Built = Callable[[Builder], Any]


def convolution(
    batch: int, height: int, width: int, channels: int, n: int, window: Window, **options: Any
) -> Callable[[Builder], Images]:
    def build(m: Builder) -> Images:
        return m.convolution("conv", m.images("x", batch, height, width, channels), n, window, **options)

    return build


WINDOWS = {
    "3x3": Window.of(3, padding=1),
    "stride": Window.of(3, stride=2, padding=1),
    "dilation": Window.of(3, dilation=2, padding=2),
    "sides": Window.of((1, 4), stride=(2, 3), padding=(0, 2, 1, 0)),
    "point": Window.of(1),
    "point by two": Window.of(1, stride=2),
    "whole": Window.of((5, 7)),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window: str) -> None:
    check_ops("one_cube", "pixels=cube", convolution(2, 5, 7, 6, 10, WINDOWS[window]))


@pytest.mark.parametrize(("dtype", "topology"), [("f32", "one_pe"), ("bf16", "one_cube"), ("f16", "devices/a100")])
def test_dtypes_and_chips(dtype: str, topology: str) -> None:
    check_ops(topology, "", convolution(1, 5, 4, 3, 9, WINDOWS["stride"], activation="relu"), dtype)


@pytest.mark.parametrize("activation", ["none", "relu", "relu6", "gelu", "silu"])
@pytest.mark.parametrize("groups", [1, 3])
def test_activations_and_groups(activation: str, groups: int) -> None:
    check_ops("one_cube", "", convolution(1, 4, 5, 6, 12, WINDOWS["3x3"], groups=groups, activation=activation))


def cubes(rows: int, cols: int) -> Any:
    """one_sip with a mesh of rows x cols cubes."""
    changes = {
        "$.cubes_per_sip": str(rows * cols),
        "$.sip.cube_mesh.rows": str(rows),
        "$.sip.cube_mesh.cols": str(cols),
    }
    changes["$.sip.links[0].to"] = f'"cube[0:{cols}].ucie[0]"'
    return chip("one_sip", changes)


def block(m: Builder) -> None:
    """A residual block that halves the image, after a pool, with the head of a network."""
    x = m.max_pool("pool", m.images("x", 2, 7, 6, 5), Window.of(3, stride=2, padding=1))
    short = m.convolution("short", x, 12, Window.of(1, stride=2))
    y = m.convolution("reduce", x, 4, Window.of(1), activation="relu")
    y = m.convolution("spatial", y, 4, Window.of(3, stride=2, padding=1), activation="relu")
    y = m.convolution("expand", y, 12, Window.of(1), activation="relu", residual=short)
    y = m.average_pool("mean", y, Window.of(2, padding=(0, 0, 1, 1)), counts_padding=False)
    m.global_pool("pooled", m.depthwise("depthwise", y, Window.of(3, padding=1), activation="relu6"))


@pytest.mark.parametrize("layout", ["pixels=sip*cube", "channels=cube"])
def test_a_residual_block_over_cubes(layout: str) -> None:
    """The rows of a cube are few here, so a window reads the parts of several other cubes, and of the other SIP."""
    check_ops(two_sips(), layout, block)


def test_filters_that_do_not_divide_over_cubes_and_pes() -> None:
    """One output and 9 filters over 2 cubes: 4 and 5 filters for 8 PEs each."""
    check_ops(cubes(1, 2), "channels=cube", convolution(1, 5, 7, 6, 9, WINDOWS["whole"]))


@pytest.mark.parametrize("window", ["3x3", "point"])
def test_outputs_that_do_not_divide_over_cubes_and_pes(window: str) -> None:
    """9 outputs over 2 cubes: 4 and 5 outputs, so that a PE of one cube has one and its counterpart has none."""
    check_ops(cubes(1, 2), "pixels=cube", convolution(1, 3, 3, 20, 1, WINDOWS[window]))


def test_the_reference_is_the_definition() -> None:
    window, built = WINDOWS["sides"], {}

    def build(m: Builder) -> None:
        built["op"] = ImageConvolution("conv", m.mesh, m.images("x", 1, 4, 5, 4), 6, window, groups=2)
        m.add(built["op"])

    ran = run_ops("one_pe", "", build, "f32")
    op = built["op"]
    x, w, bias = (ran.read(each).astype(np.float64) for each in (op.x, op.w, op.bias))
    x = x.reshape(4, 5, 4)
    (above, left, _, _), (down, across) = window.padding, window.stride
    for oy, ox, n in product(range(op.scan.down), range(op.scan.across), range(6)):
        total = bias[n]
        for ky, kx, c in product(range(1), range(4), range(2)):
            y, at = oy * down - above + ky, ox * across - left + kx
            if 0 <= y < 4 and 0 <= at < 5:
                total += x[y, at, n // 3 * 2 + c] * w[(ky * 4 + kx) * 2 + c, n]
        assert op.reference(ran.read)["conv"][oy * op.scan.across + ox, n] == pytest.approx(total, abs=1e-12)


def test_pools_of_windows_with_many_taps() -> None:
    """More taps than one vector program joins."""

    def build(m: Builder) -> None:
        x = m.images("x", 1, 5, 4, 3)
        m.max_pool("max", x, Window.of(5, stride=2, padding=2))
        m.average_pool("inside", x, Window.of(5, stride=2, padding=2), counts_padding=False)

    check_ops("one_cube", "", build)


def test_the_mean_of_images_larger_than_the_tcm() -> None:
    """150 x 160 pixels of 32 channels of f32 are 3 MB, and the TCM of the PE has 1.3 MB for values."""
    check_ops("one_pe", "", lambda m: m.global_pool("mean", m.images("x", 1, 150, 160, 32)), "f32")


def test_a_point_window_is_one_product_of_each_pe() -> None:
    """16 pixels x 64 channels by 64 x 64 over 8 PEs: no gather, so nothing but the product and its bias is read."""
    ran = check_ops("one_cube", "", convolution(1, 4, 4, 64, 64, WINDOWS["point"]))
    assert len(ran.workload.ops) == 1
    assert ran.workload.ops[0].flops == 2 * 16 * 64 * 64


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (convolution(1, 4, 4, 6, 10, WINDOWS["3x3"], groups=4), "6 channels and 10 filters in 4 groups"),
        (convolution(1, 4, 4, 6, 10, WINDOWS["3x3"], activation="tanh"), "activation 'tanh'"),
        (convolution(1, 2, 2, 6, 10, Window.of(5)), "a window of 5 x 5 pixels on an image of 2 x 2"),
        (convolution(1, 4, 4, 6, 10, WINDOWS["3x3"], axis="pixels"), "pixels and pixels both over the cubes"),
        (lambda m: m.max_pool("pool", m.images("x", 1, 4, 4, 3), Window.of(1, padding=1)), "without a pixel"),
    ],
)
def test_refusals(build: Built, said: str) -> None:
    with pytest.raises(BenchmarkError, match=said):
        build(Builder(Mesh.of(cubes(1, 2), {"pixels": ("cube",)}), DType.F16))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kernel": 0}, "kernel 0"),
        ({"kernel": 3, "padding": (1, 1, 1)}, r"padding \(1, 1, 1\)"),
        ({"kernel": 3, "stride": -1}, "stride -1"),
    ],
)
def test_windows_that_are_none(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchmarkError, match=said):
        Window.of(**given)


def test_pixels_come_from_the_nearest_copy() -> None:
    """Four cubes with copies of two parts of the rows: a cube reads its own copy, and the nearest one of the other."""
    parts = [Part(((0, 5), (0, 3)), 0), Part(((5, 9), (0, 3)), 1), Part(((0, 5), (0, 3)), 2), Part(((5, 9), (0, 3)), 3)]
    assert [source.part for source in sources_of(parts, 0)] == [0, 1]
    assert [source.part for source in sources_of(parts, 3)] == [2, 3]
    assert sources_of(parts, 3) == (Source(2, 0, 5), Source(3, 5, 9))


def drawn(seed: int) -> tuple[str, str, Built]:
    """A convolution of random sizes, with a depthwise one and a pool of the same window before, and its layout."""
    rng = random.Random(seed)
    kernel, dilation = (rng.randint(1, 4), rng.randint(1, 4)), (rng.randint(1, 2), rng.randint(1, 2))
    reach = [(n - 1) * d for n, d in zip(kernel, dilation, strict=True)]
    padding = [rng.randint(0, reach[side % 2]) for side in range(4)]
    window = Window.of(kernel, (rng.randint(1, 3), rng.randint(1, 3)), padding, dilation)
    groups, activation = rng.choice([1, 1, 2, 3]), rng.choice(["none", "relu", "relu6", "gelu", "silu"])
    height, width = (rng.randint(max(1, each + 1), each + 7) for each in reach)

    def build(m: Builder) -> None:
        x = m.images("x", rng.randint(1, 3), height, width, groups * rng.randint(1, 9))
        m.depthwise("depthwise", x, window, activation=activation)
        m.average_pool("mean", x, window)
        m.convolution("conv", x, groups * rng.randint(1, 40), window, groups=groups, activation=activation)

    return rng.choice(["pixels=cube", "channels=cube", "batch=cube", ""]), rng.choice(["f32", "f16", "bf16"]), build


@pytest.mark.parametrize("seed", sampled(range(60), 2))
def test_random_windows(seed: int) -> None:
    layout, dtype, build = drawn(seed)
    check_ops(cubes(1, 3), layout, build, dtype)
