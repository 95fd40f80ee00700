"""kb-plans in an environment of its own: what it brings along, and that its README works there."""

import json
import os
import subprocess
from pathlib import Path

import pytest

PYTHON = os.environ.get("KB_PLANS_PYTHON")
README = Path(__file__).parents[1] / "packages/kb-plans/README.md"

pytestmark = pytest.mark.skipif(not PYTHON, reason="`nox -s integration` makes the environment")

INSTALLED = "import importlib.metadata as m, json; print(json.dumps(sorted(d.name for d in m.distributions())))"
RUN_README = "import doctest, sys; print(*doctest.testfile(sys.argv[1], module_relative=False))"


def python(*args: str) -> str:
    return subprocess.run(
        [str(PYTHON), "-I", *args], capture_output=True, text=True, check=True, env={"PATH": os.defpath}
    ).stdout


def test_it_brings_msgspec_and_kb_messages_and_nothing_else() -> None:
    assert json.loads(python("-c", INSTALLED)) == ["kb-messages", "kb-plans", "msgspec"]


def test_its_readme_works() -> None:
    failed, attempted = map(int, python("-c", RUN_README, str(README)).split())
    assert failed == 0
    assert attempted >= 8


def test_it_is_the_wheel_and_not_the_checkout() -> None:
    where = Path(python("-c", "import kb_plans; print(kb_plans.__file__)").strip())
    assert "site-packages" in where.parts
