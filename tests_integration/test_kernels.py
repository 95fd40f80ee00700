"""The bundled kernels are right at shapes that no block divides: in every type on a cube, and in f16 on 16 cubes.

`nox -s kernels` runs all types on both chips, and the shapes of models.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    kernels = import_module("kernels")


SAMPLE = [case for case in kernels.cases(kernels.RAGGED) if case.chip == "one_cube" or "f16" in case.params.values()]


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_a_kernel_is_right(case: Any) -> None:
    result = kernels.run(case)
    assert result.wrong == ""
    assert result.latency_ns > 0


def test_a_wrong_kernel_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "benchmarks/rope.py").read_text(encoding="utf-8")
    right, other = "(b * c + a * s).to", "(b * c - a * s).to"
    assert right in text
    (tmp_path / "rope.py").write_text(text.replace(right, other), encoding="utf-8")
    monkeypatch.setattr(kernels, "BENCHMARKS", tmp_path)
    wrong = kernels.run(kernels.KernelCase("rope", "one_cube", {"positions": 9, "heads": 1, "head_dim": 6})).wrong
    assert "of 54 elements wrong" in wrong
    assert "rope.py:27" in wrong


def test_every_kernel_has_both_shapes() -> None:
    older = {"gemm", "power_iteration", "softmax", "vector_add"}
    bundled = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - older
    assert set(kernels.REAL) == set(kernels.RAGGED) == bundled
