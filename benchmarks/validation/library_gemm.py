"""The GEMM of the bundled benchmark `gemm` as libraries cut it, for rows that have no data."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kb_engine import Host
from kb_plans import GemmSize

FILE: Final = Path(__file__).parents[1] / "gemm.py"


def _bundled() -> ModuleType:
    """The benchmark's file as a module. Its name is that of a file of this folder, too."""
    spec = spec_from_file_location("bundled_gemm", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_GEMM: Any = _bundled()
Operands, TileGrid = _GEMM.Operands, _GEMM.TileGrid
grid_of, launch_gemm, suggest_cut, warm_caches = (
    _GEMM.grid_of,
    _GEMM.launch_gemm,
    _GEMM.suggest_cut,
    _GEMM.warm_caches,
)
chip_costs = _GEMM.chip_costs


def empty_operands(host: Host, size: GemmSize) -> Any:
    """Uninitialised operands and result of a GEMM of *size*."""
    return Operands(
        host.empty("a", (size.batch * size.m, size.k), size.dtype),
        host.empty("b", (size.batch * size.k, size.n), size.dtype),
        host.empty("c", (size.batch * size.m, size.n), size.out_dtype),
    )
