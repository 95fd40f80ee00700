"""The wing `kb_engine.fastforward` can be deleted: tests of all rooms pass where the wing cannot be imported.

`nox -s without_fastforward` runs all tests so. This file samples them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("packages/kb-engine/tests/engine", "packages/kb-engine/tests/launch", "tests_integration/test_softmax.py")
LONG = ("livelock", "watchdog")
"""Tests of the room `engine` that wait for a guard, and take most of its tests' time."""


def test_tests_pass_without_the_wing() -> None:
    left_out = [f"--ignore={SUITES[0]}/test_{name}.py" for name in LONG]
    options = ["-q", "-p", "without_fastforward", "-p", "no:cacheprovider", *left_out]
    command = [sys.executable, "-m", "pytest", *options, *SUITES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_the_wing_is_refused() -> None:
    script = (
        "import sys; sys.path.insert(0, 'tests_shared'); import without_fastforward\n"
        "from kb_engine import Engine; from kb_topology import load_topology\n"
        "print(Engine(load_topology('topologies/one_pe.yaml')).fast_forward)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
