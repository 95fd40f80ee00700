"""The softmax benchmark: where it places its rows."""

import json
import subprocess
import sys
from pathlib import Path

KB = str(Path(sys.executable).with_name("kb"))


def latency_ps(folder: Path, rows: int) -> int:
    command = [KB, "run", "softmax", "--json", "--topology", "one_cube", "-p", f"M={rows}", "-p", "N=64"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=True)
    return int(json.loads(done.stdout)["latency_ps"])


def test_every_row_lies_in_the_slice_of_its_own_pe_also_where_pes_are_left_over(tmp_path: Path) -> None:
    # A row a PE takes as long on 8 PEs, each at its own slice, as on 3; a row at another PE's slice takes longer.
    assert latency_ps(tmp_path, 8) == latency_ps(tmp_path, 3)
