"""The bundled kernels are right at shapes that no block divides: each shape in some types, on a cube or on 16 cubes.

`nox -s kernels` runs all types on both chips, and the shapes of models.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from sampled_cases import sampled_of_each

ROOT = Path(__file__).parents[1]
BUNDLED = {path.stem: path for path in (ROOT / "benchmarks").glob("*.py")}
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    kernels = import_module("kernels")

ON_A_CUBE_OR_IN_F16 = [
    case for case in kernels.cases(kernels.RAGGED) if case.chip == "one_cube" or "f16" in case.params.values()
]
SAMPLE = sampled_of_each(ON_A_CUBE_OR_IN_F16, kernels.shape_of, 1)


def test_each_shape_is_tried_and_each_type_on_each_chip() -> None:
    def types(cases: Any) -> set[tuple[str, str]]:
        return {(case.chip, dtype) for case in cases for dtype in kernels.DTYPES if dtype in case.params.values()}

    assert types(SAMPLE) == types(ON_A_CUBE_OR_IN_F16)
    assert {kernels.shape_of(case) for case in SAMPLE} == {kernels.shape_of(case) for case in ON_A_CUBE_OR_IN_F16}


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
    assert set(kernels.REAL) == set(kernels.RAGGED) == set(BUNDLED)


def test_a_kernel_has_20_lines_at_most_and_frees_nothing() -> None:
    found = {f"{stem}.{each.name}": each for stem, path in BUNDLED.items() for each in kernels_of(path)}
    assert len(found) > 15
    long = {name: 1 + (each.end_lineno or 0) - each.lineno for name, each in found.items()}
    assert max(long.values()) <= 20, long
    freed = [name for name, each in found.items() if "tl.free" in ast.unparse(each)]
    assert freed == []


def kernels_of(path: Path) -> list[ast.FunctionDef]:
    """The functions of a benchmark that take `tl`."""
    functions = [each for each in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(each, ast.FunctionDef)]
    return [each for each in functions if each.args.args and each.args.args[0].arg == "tl"]
