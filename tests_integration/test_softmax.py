"""The softmax benchmark: where it places its rows."""

import json
from pathlib import Path

from python_copies import kb


def latency_ps(folder: Path, rows: int) -> int:
    done = kb(folder, "run", "softmax", "--json", "--topology", "one_cube", "-p", f"M={rows}", "-p", "N=64")
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["latency_ps"])


def test_every_row_lies_in_the_slice_of_its_own_pe_also_where_pes_are_left_over(tmp_path: Path) -> None:
    # A row a PE takes as long on 8 PEs, each at its own slice, as on 3; a row at another PE's slice takes longer.
    assert latency_ps(tmp_path, 8) == latency_ps(tmp_path, 3)


def test_integers_are_refused(tmp_path: Path) -> None:
    done = kb(tmp_path, "run", "softmax", "-p", "dtype=i8")
    assert done.returncode == 2
    assert done.stderr == (
        "error: -p: got parameters that do not go together (i8 holds no shares of 1: dtype has to be a float), "
        "needs a legal combination\n"
    )
