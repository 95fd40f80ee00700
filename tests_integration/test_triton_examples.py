"""The examples of Triton kernels run as they are, and their own assertions hold; `nox -s triton` has more types."""

from pathlib import Path

import pytest

from kb_triton.host import Device, Options
from kb_triton.script import execute

FOLDER = Path(__file__).parents[1] / "benchmarks" / "triton"
LAUNCHES = {
    "attention": 9,
    "cross_entropy": 2,
    "gemm_activation": 6,
    "layer_norm": 6,
    "row_softmax": 3,
    "vector_add": 3,
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_an_example_runs_as_it_is(name: str) -> None:
    device = Device.of(Options())
    execute(device, FOLDER / f"{name}.py", ["f32"], {})
    assert device.n_launches == LAUNCHES[name]
