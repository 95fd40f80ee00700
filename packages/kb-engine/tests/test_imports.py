"""Importing the engine costs no more than it must."""

import subprocess
import sys

import pytest

MODULES = """
import importlib, pkgutil, sys
import kb_engine
for module in pkgutil.walk_packages(kb_engine.__path__, "kb_engine."):
    importlib.import_module(module.name)
print(*sorted(sys.modules))
"""


@pytest.fixture(scope="module")
def loaded():
    """The modules that are there when all of kb_engine is imported."""
    done = subprocess.run([sys.executable, "-c", MODULES], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module", ["kb_dataexec.execute.executor", "ml_dtypes", "kb_components", "kb_plans", "threadpoolctl"]
)
def test_the_engine_does_not_load(loaded, module):
    assert module not in loaded


def test_the_engine_does_load(loaded):
    assert {
        "kb_engine.engine.engine",
        "kb_engine.language.tl",
        "kb_dataexec.memory.store",
        "simpy",
        "greenlet",
    } <= loaded
