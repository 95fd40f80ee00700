"""Compares the tables of refused and accepted kernels with Triton's own compiler, up to its first representation.

    python benchmarks/validation/triton_interpreter/compare_refusals.py  # where triton is installed; no GPU is needed

The tables are those of kb-triton's tests. The exit code is 1 where the compiler takes a kernel of the first table,
refuses it in other words, or refuses a kernel of the second.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend

TESTS: Final = Path(__file__).parents[3] / "packages" / "kb-triton" / "tests"
HEAD: Final = "import triton\nimport triton.language as tl\n\n\n"
TARGET: Final = GPUTarget("cuda", 90, 32)
UNVERIFIED: Final = "error encountered during parsing"
"""The words of Triton for code that it made and found wrong. kb-triton adds the reason."""


def main() -> None:
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for table, is_refused in (("refused_kernels.txt", True), ("accepted_kernels.txt", False)):
            for name, types, code, words in read(TESTS / table):
                path = Path(folder) / f"kernel_{sum(counts.values())}.py"
                said = apart(lambda types=types, code=code, path=path: compiled(types, code, path))
                verdict = judged(said, is_refused, words)
                counts[verdict] += 1
                if verdict != "as in the table":
                    print(f"{verdict}: {name}: {said}")
    for verdict, count in counts.most_common():
        print(f"{count:5} {verdict}")
    sys.exit(1 if set(counts) - {"as in the table"} else 0)


def read(path: Path) -> list[tuple[str, list[str], str, str]]:
    """Returns the name, the types of the arguments, the source and the words of each kernel of a table."""
    found = []
    for part in path.read_text(encoding="utf-8").removeprefix("== ").split("\n== "):
        head, _, code = part.partition("\n")
        name, _, types = head.partition(" | ")
        words = ""
        if code.startswith("> "):
            words, _, code = code.removeprefix("> ").partition("\n")
        found.append((name, types.split(), code.rstrip() + "\n", words))
    return found


def judged(said: str | None, is_refused: bool, words: str) -> str:
    if said is None:
        return "compiled" if is_refused else "as in the table"
    if not is_refused:
        return "refused"
    wanted = UNVERIFIED if UNVERIFIED in words else words
    return "as in the table" if wanted in said else "refused in other words"


def apart(action: Callable[[], str | None]) -> str | None:
    """Returns the result of *action* in a process of its own, because the compiler may crash."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.dup2(2, 1)
        os.write(write_end, json.dumps(action()).encode()[:60_000])
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    return str(json.loads(data)) if data and data != b"null" else None if data else "a crash"


def compiled(types: list[str], code: str, path: Path) -> str | None:
    """Returns the errors of the compiler for the kernel in *code*, one below the other; None where there is none."""
    before, _, kernel = code.rpartition("def kernel(")
    path.write_text(f"{HEAD}{before}@triton.jit\ndef kernel({kernel}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Any = module.kernel
    constants = {(at,): eval(each[1:], {"tl": tl}) for at, each in enumerate(types) if each.startswith("=")}
    signature = {name: "constexpr" if (at,) in constants else types[at] for at, name in enumerate(function.arg_names)}
    backend = make_backend(TARGET)
    options, context = backend.parse_options({}), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(function, signature, constants)
    made_by = (backend.get_codegen_implementation(options), backend.get_module_map())
    try:
        source.make_ir(TARGET, options, *made_by, context)
    except Exception as error:  # noqa: BLE001 - whatever the compiler raises refuses the kernel
        found, each = [], error
        while each is not None:
            found.append(str(each))
            each = each.__cause__  # type: ignore[assignment]
        return "\n".join(found)
    return None


if __name__ == "__main__":
    main()
