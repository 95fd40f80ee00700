"""Doors load their rooms when a name is used, not before."""

import subprocess
import sys

import pytest

DOORS = ["log", "memory", "analysis", "verify", "execute", "arrays", "backends", "ops", "dtypes", "logfile"]


@pytest.mark.parametrize("module", DOORS)
def test_doors_load_neither_executor_nor_ml_dtypes(module):
    heavy = "{'ml_dtypes', 'kb_dataexec.execute.executor'}"
    code = f"import sys, kb_dataexec.{module}; print(*sorted({heavy} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "\n"
