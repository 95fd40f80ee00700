"""Doors load their rooms when a name is used, not before."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kb_dataexec

DOORS = ["log", "memory", "analysis", "verify", "execute", "arrays", "backends", "ops", "dtypes", "logfile"]


HEAVY = ["ml_dtypes", "kb_dataexec.execute.executor"]


def test_doors_load_neither_executor_nor_ml_dtypes():
    """One process imports all doors, and names each door behind which a heavy module was loaded."""
    code = f"""
import importlib, sys
for door in {DOORS}:
    importlib.import_module(f"kb_dataexec.{{door}}")
    print(*(f"{{door}} loaded {{name}}" for name in {HEAVY} if name in sys.modules))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split("\n") == [""] * (len(DOORS) + 1)


def public_names():
    """(door, name) for every name in the README's table of public names."""
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    table = readme.partition("| import from | names |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        door, names = line.strip("| ").split(" | ")
        if not names.startswith("older"):
            yield from ((door.strip("`"), name) for name in re.findall(r"`(\w+)`", names))


@pytest.mark.parametrize(("door", "name"), list(public_names()))
def test_a_name_of_the_readme_is_at_its_door(door, name):
    found = getattr(importlib.import_module(door), name)
    assert not isinstance(found, ModuleType)
    assert name in dir(importlib.import_module(door))


def test_the_readme_names_all_that_the_package_exports():
    exported = {name for names in kb_dataexec._NAMES.values() for name in names}
    assert exported == {name for door, name in public_names() if door == "kb_dataexec"}
