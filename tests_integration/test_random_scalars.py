"""Random Triton kernels with scalars run, and each name has the type that the generator expects by Triton's table.

`benchmarks/validation/triton_interpreter/scalars.py` compares such kernels with Triton's compiler, bit for bit.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import kb_triton

FOLDER = Path(__file__).parents[1] / "benchmarks" / "validation" / "triton_interpreter"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    scalar_kernels, runs = import_module("scalar_kernels"), import_module("run_scalar_kernels")
KERNELS = 40


@pytest.fixture
def as_triton() -> Iterator[None]:
    kb_triton.install()
    yield
    kb_triton.uninstall()


@pytest.mark.usefixtures("as_triton")
def test_names_of_random_kernels_have_tritons_types(tmp_path: Path) -> None:
    kernels = [scalar_kernels.kernel(0, number) for number in range(KERNELS)]
    module = runs.module_of(tmp_path / "random_scalars.py", kernels)
    for each in kernels:
        found = runs.by_kb(getattr(module, each.name), each)
        assert not isinstance(found, str), f"{found}\n{each.source}"
        assert {slot: int(found[0][slot]) for slot in each.facts} == each.facts, each.source
