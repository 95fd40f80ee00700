from pathlib import Path

import numpy as np
import pytest

from kb_topology import load_topology
from kb_triton.host import Device, use

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@pytest.fixture(scope="session")
def one_cube():
    return load_topology(TOPOLOGIES / "one_cube.yaml")


@pytest.fixture(autouse=True)
def device(one_cube):
    found = Device(one_cube)
    use(found)
    return found


@pytest.fixture
def check():
    """Launches a kernel on copies of its inputs, and compares the array that follows them with *expected*."""

    def checked(kernel, grid, inputs, more, constants, expected, rtol=0.0, atol=0.0):
        found = np.zeros(expected.shape, expected.dtype)
        kernel[grid](*[each.copy() for each in inputs], found, *more, **constants)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)

    return checked


@pytest.fixture
def lenient(device):
    """Runs kernels of the test that Triton's compiler refuses."""
    device.lenient = True
