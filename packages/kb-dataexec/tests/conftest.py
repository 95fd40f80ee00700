"""Puts this folder on the path, so that tests can import the helper modules beside them."""

import sys
from pathlib import Path

import numpy as np
import pytest

from kb_dataexec.cli.main import main
from kb_dataexec.log.writer import write_log

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def invoke(capsys):
    """`python -m kb_dataexec`: (exit code, standard output, standard error)."""

    def run(*args):
        code = main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def folder(tmp_path):
    """A log, its memory and the reference of its output."""
    from dataexec_stored_log import PROBLEM

    write_log(tmp_path / "log", PROBLEM.log())
    PROBLEM.memory().save(tmp_path / "memory")
    reference, allowed = PROBLEM.reference()
    np.save(tmp_path / "c.npy", reference)
    np.save(tmp_path / "allowed.npy", allowed)
    return tmp_path
