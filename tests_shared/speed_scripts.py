"""The scripts that measure speed, as modules, for their tests."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "benchmarks/speed"


def speed_script(name: str) -> Any:
    """The module of `benchmarks/speed/NAME.py`, a new one at each call. Nothing is measured yet."""
    spec = spec_from_file_location(f"{name}_speed", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
