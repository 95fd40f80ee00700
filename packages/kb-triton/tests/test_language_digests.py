"""Equal launches have equal logs, whatever the seed of Python's hashes is."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from kb_topology import load_topology
from kb_triton.host import Device, using

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent)
    test_kernels = import_module("test_kernels")
TOPOLOGY = Path(__file__).parents[3] / "topologies" / "one_cube.yaml"


def digests():
    """The digest of the log of each launch of three tests."""
    found = []
    with using(Device(load_topology(TOPOLOGY), on_launch=lambda launched: found.append(launched.log.digest))):
        test_kernels.test_sums_under_locks()
        test_kernels.test_attention()
        test_kernels.test_cross_entropy()
    return found


def test_digests_are_equal_with_another_hash_seed():
    run = "import sys; sys.path.insert(0, sys.argv[1]); import test_language_digests as test; print(test.digests())"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # another one than that of this process
    done = subprocess.run(
        [sys.executable, "-c", run, str(Path(__file__).parent)],
        capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed},
    )  # fmt: skip
    found = digests()
    assert done.stdout == f"{found}\n"
    assert len(found) >= 4
