"""Equal logs from equal launches, whatever Python's hashes are."""

import subprocess
import sys
from pathlib import Path

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from kb_topology import load_topology
from kb_triton.host import Device, use
import test_kernels
from pathlib import Path
found = []
use(Device(load_topology(Path(sys.argv[2])), on_launch=lambda launched: found.append(launched.log.digest)))
test_kernels.test_sums_under_locks()
test_kernels.test_attention()
test_kernels.test_cross_entropy()
print(found)
"""


def test_equal_digests_over_hash_seeds():
    here = Path(__file__).parent
    topology = here.parents[2] / "topologies" / "one_cube.yaml"
    texts = {
        subprocess.run(
            [sys.executable, "-c", RUN, str(here), str(topology)],
            capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1
    assert texts.pop().count("'") >= 8
