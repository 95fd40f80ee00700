from pathlib import Path

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
