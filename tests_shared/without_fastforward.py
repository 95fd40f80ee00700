"""A plugin of pytest, `-p without_fastforward`: refuses to import the wing `kb_engine.fastforward`, as if it were
deleted.

Files that import the wing are not collected, and tests with the mark `speed` are not run. All other tests have to pass,
because the wing changes no result.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

_WING = "kb_engine.fastforward"
_IMPORTS_WING = re.compile(rf"^from {re.escape(_WING)}\b", re.MULTILINE)


class WingRefused(MetaPathFinder):
    """Finds no module of the wing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for a module of the wing. Leaves any other module to the finders behind."""
        if fullname == _WING or fullname.startswith(f"{_WING}."):
            raise ModuleNotFoundError(f"No module named {_WING!r}", name=_WING)
        return None


sys.meta_path.insert(0, WingRefused())


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out a file that imports the wing."""
    if collection_path.suffix == ".py" and _IMPORTS_WING.search(collection_path.read_text(encoding="utf-8")):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests with the mark `speed`."""
    marked = [item for item in items if item.get_closest_marker("speed")]
    config.hook.pytest_deselected(items=marked)
    items[:] = [item for item in items if item not in marked]
