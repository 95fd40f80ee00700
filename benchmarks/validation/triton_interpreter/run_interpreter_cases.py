"""Runs the cases with the Triton that is installed, or with --kb by kb_triton, and writes the results to a file.

python run_interpreter_cases.py OUT [--kb]
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from interpreter_cases import COLUMNS, ROWS, Case, cases
from interpreter_elements import block

_TEMPLATE = """
@triton.jit
def kernel_{number}(x, y, z, of, oi, noted: tl.constexpr):
{loads}
    r = {expression}
    note(noted, r)
    {store}
"""
_HEADER = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)

NOTES = []

def note(noted, r):
    NOTES.append((str(r.dtype), tuple(int(each) for each in r.shape)))
"""


def main() -> None:
    out, folder = Path(sys.argv[1]), Path(sys.argv[1]).parent
    is_kb = "--kb" in sys.argv
    warnings.simplefilter("ignore")
    if is_kb:
        import kb_triton

        kb_triton.install()
    module = _module(folder / f"kernels_{'kb' if is_kb else 'triton'}.py")
    passed = _as_numpy if is_kb else _as_torch
    found = {}
    for number, case in enumerate(cases()):
        found[str(case)] = _run(getattr(module, f"kernel_{number}"), case, passed, module.NOTES, is_kb)
    out.write_bytes(pickle.dumps(found))


def _module(path: Path) -> Any:
    """The kernels of all cases, as a module of the file *path*: Triton reads the source of a kernel."""
    text = [_HEADER]
    for number, case in enumerate(cases()):
        shape = f"tl.arange(0, {ROWS})[:, None] * {COLUMNS} + tl.arange(0, {COLUMNS})[None, :]"
        lines = [f"i = {shape if case.is_matrix else f'tl.arange(0, {ROWS * COLUMNS})'}"]
        for name, pointer, kind in zip("abc", "xyz", case.kinds, strict=False):
            load = f"tl.load({pointer} + i)"
            lines.append(f"{name} = {load}{'.to(tl.int1)' if kind == 'int1' else ''}")
        store = "store_result(of, oi, r)"
        text.append(
            _TEMPLATE.format(
                number=number, loads="\n".join(f"    {each}" for each in lines), expression=case.expression, store=store
            )
        )
    text.insert(1, _STORE)
    path.write_text("".join(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


_STORE = """
@triton.jit
def store_result(of, oi, r):
    if len(r.shape) == 0:
        if r.dtype.is_floating():
            tl.store(of, r)
        else:
            tl.store(oi, r)
    else:
        n: tl.constexpr = r.numel
        flat = tl.reshape(r, [n])
        if r.dtype.is_floating():
            tl.store(of + tl.arange(0, n), flat)
        else:
            tl.store(oi + tl.arange(0, n), flat)
"""


def _run(kernel: Any, case: Case, passed: Any, notes: list[Any], is_kb: bool) -> Any:
    inputs = [passed(block(kind, number), kind) for number, kind in enumerate(case.kinds)]
    inputs += [inputs[0]] * (3 - len(inputs))
    floats, integers = np.zeros(4096, np.float32), np.full(4096, -77, np.int64)
    given = [*inputs, passed(floats, "fp32"), passed(integers, "int64")]
    notes.clear()
    try:
        kernel[(1,)](*given, 0)
        kind, shape = notes[-1]
    except Exception as error:  # noqa: BLE001 - what a case raises is its result
        trace = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error}"[:300], f"{Path(trace.filename).name}:{trace.lineno}"
    n = int(np.prod(shape)) if shape else 1
    is_float = kind in ("fp16", "bf16", "fp32", "fp64")
    return kind, shape, np.array(given[3 if is_float else 4])[:n]


def _as_numpy(x: Any, kind: str) -> Any:
    if kind == "bf16":
        import ml_dtypes

        return x.view(ml_dtypes.bfloat16)
    return x


def _as_torch(x: Any, kind: str) -> Any:
    import torch

    made = torch.from_numpy(x)
    return made.view(torch.bfloat16) if kind == "bf16" else made


if __name__ == "__main__":
    main()
