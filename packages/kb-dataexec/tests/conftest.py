"""Puts this folder on the path, so that tests can import the helper modules beside them."""

import sys
from pathlib import Path

import pytest

from kb_dataexec.cli.main import main

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def invoke(capsys):
    """`python -m kb_dataexec`: (exit code, standard output, standard error)."""

    def run(*args):
        code = main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return code, out, err

    return run
