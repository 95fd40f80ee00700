"""The initial memory of `run`."""

import numpy as np
import pytest
from dataexec_gemm_log import HBM
from dataexec_stored_log import PROBLEM, run_args


def test_an_input_comes_on_top_of_a_saved_memory(folder, invoke):
    np.save(folder / "wrong.npy", np.full((1, 4), 7, np.float16))
    given = ("--reference", f"c={folder / 'c.npy'}", "--allowed", f"c={folder / 'allowed.npy'}")
    code, out, _ = invoke(*run_args(folder, *given), "--input", f"{HBM << 32 | PROBLEM.at_a:#x}={folder / 'wrong.npy'}")
    assert code == 1
    assert "10 of 120 elements wrong" in out  # the first row of C follows from that of A


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("0x400", "--input: got '0x400', needs ADDRESS=FILE.npy; write it like 0x40000000000=a.npy"),
        ("there=a.npy", "--input: got 'there=a.npy', needs ADDRESS=FILE.npy; write it like 0x40000000000=a.npy"),
        ("0x40000000000=none.npy", "none.npy: got no such file, needs a .npy file"),
    ],
)
def test_an_input_that_is_none_is_refused(folder, invoke, given, sentence):
    code, _, err = invoke("run", folder / "log", "--input", given)
    assert (code, err) == (2, f"error: {sentence}\n")
