"""Runs random kernels with scalars by kb_triton, by Triton's interpreter, or as the TTIR that Triton's compiler makes.

python run_scalar_kernels.py FOLDER HOW    # HOW is kb, interpreter or ttir

FOLDER has `kernels.pickle`, the kernels of `scalar_kernels`. The results are written to FOLDER/HOW.pickle: by the name
of a kernel its two output arrays, or the words of a refusal.
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
import warnings
import zlib
from itertools import count
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
from scalar_kernels import BLOCK, SLOTS, Kernel

_NUMPY: Final = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}
_IN_A_FILE: Final = 50
"""The kernels of one file."""
_OF_MLIR: Final = {
    "u1": np.bool_, "i1": np.bool_, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.int8, "u16": np.int16, "u32": np.int32,
    "u64": np.int64,
}  # fmt: skip


def main() -> None:
    folder, how = Path(sys.argv[1]), sys.argv[2]
    kernels: list[Kernel] = pickle.loads((folder / "kernels.pickle").read_bytes())
    warnings.simplefilter("ignore")
    if how == "kb":
        import kb_triton

        kb_triton.install()
    found: dict[str, Any] = {}
    for start in range(0, len(kernels), _IN_A_FILE):
        few = kernels[start : start + _IN_A_FILE]
        module = module_of(folder / f"{how}_{start}.py", few)
        for each in few:
            found[each.name] = _RUNS[how](getattr(module, each.name), each)
    (folder / f"{how}.pickle").write_bytes(pickle.dumps(found))


def module_of(path: Path, kernels: list[Kernel]) -> Any:
    """Writes *kernels* to the file *path*, where Triton finds their source, and imports it."""
    path.write_text("import triton\nimport triton.language as tl\n\n\n" + "".join(each.source for each in kernels))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def inputs_of(kernel: Kernel) -> list[Any]:
    """The input arrays of *kernel*: small numbers, and for integers some limits of the type."""
    chance = np.random.default_rng(zlib.crc32(kernel.name.encode()))
    found = []
    for kind in kernel.inputs:
        if kind in _NUMPY:
            x = (chance.integers(-40, 40, BLOCK) / 8).astype(_NUMPY[kind])
        else:
            limits = np.iinfo(kind)
            x = chance.integers(max(limits.min, -100), min(limits.max, 127), BLOCK, dtype=np.int64).astype(kind)
            x[:2] = limits.max, limits.min
        found.append(x)
    return found


def _outputs() -> list[Any]:
    return [np.full(SLOTS, -77, np.int64), np.full(SLOTS, -77, np.float32)]


def _by_launch(kernel: Any, given: Kernel, passed: Any) -> Any:
    outputs = _outputs()
    try:
        kernel[(1,)](*map(passed, inputs_of(given)), *map(passed, outputs), **given.arguments)
    except Exception as error:  # noqa: BLE001 - what a kernel raises is its result
        return f"{type(error).__name__}: {error}"
    return outputs


def by_kb(kernel: Any, given: Kernel) -> Any:
    """The two outputs of *kernel*, launched here, or the words of its refusal."""
    return _by_launch(kernel, given, lambda x: x)


def _by_interpreter(kernel: Any, given: Kernel) -> Any:
    import torch

    def passed(x: Any) -> Any:
        if x.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(x)

    return _by_launch(kernel, given, passed)


def _by_ttir(kernel: Any, given: Kernel) -> Any:
    """Compiles *kernel* to TTIR for the types of its arguments, and computes that."""
    import ttir

    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    arrays = [*inputs_of(given), *_outputs()]
    values: list[Any] = [ttir.Pointer(_signless(each)) for each in arrays]
    short = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
    for at, parameter in enumerate(kernel.params):
        if at < len(arrays):
            name = str(arrays[at].dtype)
            signature[parameter.name] = "*" + short.get(name, name.replace("uint", "u").replace("int", "i"))
            continue
        number = given.arguments[parameter.name]
        kind = "constexpr" if parameter.is_constexpr else _type_of(parameter, number)
        signature[parameter.name] = kind
        is_tuple = isinstance(number, tuple)
        for place, each, name in zip(count(), number, kind) if is_tuple else [(None, number, kind)]:
            if name == "constexpr":
                constants[(at,) if place is None else (at, place)] = each
            else:
                values.append(_as_argument(each, name))
    try:
        text = _ttir(kernel, signature, constants)
    except Exception as error:  # noqa: BLE001 - a refusal of the compiler is its result
        while error.__cause__ is not None:
            error = error.__cause__  # type: ignore[assignment]
        return f"{type(error).__name__}: {error}"
    try:
        ttir.Program(text).run(values)
    except ttir.Open as error:
        return f"open: {error}"
    return arrays[-2:]


def _type_of(parameter: Any, number: Any) -> str:
    from triton._C.libtriton import native_specialize_impl
    from triton.backends.compiler import BaseBackend

    by_value = native_specialize_impl(BaseBackend, number, False, not parameter.do_not_specialize, True)
    return parameter.annotation_type or by_value[0]


def _as_argument(number: Any, kind: str) -> Any:
    """*number* as Triton's launcher passes it to a kernel."""
    if kind in ("u1", "i1"):
        return np.bool_(number)
    if kind == "bf16":
        bits = np.float32(number).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(ml_dtypes.bfloat16)
    if kind.startswith(("i", "u")):
        return np.array(int(number) & ((1 << 64) - 1), np.uint64).astype(_OF_MLIR[kind])
    return _OF_MLIR[kind](number)


def _signless(x: Any) -> Any:
    return x.view(f"i{x.dtype.itemsize}") if x.dtype.kind == "u" else x


def _ttir(kernel: Any, signature: dict[str, str], constants: dict[tuple[int, ...], Any]) -> str:
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    source, context = ASTSource(kernel, signature, constants), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = backend.parse_options({"sanitize_overflow": False})
    functions = backend.get_codegen_implementation(options)
    return str(source.make_ir(target, options, functions, backend.get_module_map(), context))


_RUNS: Final = {"kb": by_kb, "interpreter": _by_interpreter, "ttir": _by_ttir}

if __name__ == "__main__":
    main()
