"""docs/triton-features.md is what its kernels do now: each gives numpy's results, or is refused in the words there."""

from importlib import import_module
from pathlib import Path

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent / "triton_features")
    features = import_module("triton_features_page")


def test_the_table_is_what_the_kernels_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_engine.timing.clock.HOUSEKEEPING_INTERVAL", 1024)  # programs that are stuck are found soon
    assert features.PAGE.read_text(encoding="utf-8") == features.page(), f"made anew by {features.COMMAND}"
