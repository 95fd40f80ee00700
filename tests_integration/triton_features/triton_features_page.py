"""docs/triton-features.md, from the kernels in benchmarks/triton, which run for it.

`python tests_integration/triton_features/triton_features_page.py` writes it anew.
"""

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import kb_triton
from kb_messages import KbError
from kb_triton.host import Device, Options, use
from kb_triton.language.compile_errors import CompilationError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "triton-features.md"
FOLDER = ROOT / "benchmarks" / "triton"
COMMAND = "python tests_integration/triton_features/triton_features_page.py"
_INTRODUCTION = f"""\
# What of Triton runs

Each row is a kernel of [benchmarks/triton](../benchmarks/triton), which `kb exec` runs as it is. A feature *works*
where the kernel's results are those of numpy. What is refused ends the launch with the sentence in the table, after the
line of the kernel. [Triton kernels](triton.md) says how to run kernels, and what their times mean. The page is made by
`{COMMAND}`, which runs the kernels.

| feature | result | shown by |
| --- | --- | --- |
"""
_EXAMPLES = """
Kernels as people have them are beside these, forward and backward where both are usual:

"""
_EXAMPLE_NAMES = "vector_add", "row_softmax", "gemm_activation", "layer_norm", "attention", "cross_entropy"


def page() -> str:
    """The text of docs/triton-features.md. Raises what a feature raises that does not work."""
    rows: list[str] = []
    kb_triton.install()
    try:
        for name in ("features_memory", "features_blocks", "features_control"):
            use(Device.of(Options()))
            rows += [_row(each, _shown(each), name) for each in _functions(_module(name), "show_")]
        use(Device.of(Options(topology="one_pe")))  # where programs that wait for each other are soon stuck
        rows += [
            _row(each, f"refused: {_sentence(each)}", "refusals") for each in _functions(_module("refusals"), "refuse_")
        ]
    finally:
        kb_triton.uninstall()
        use(None)
    return _INTRODUCTION + "".join(rows) + _EXAMPLES + "".join(map(_example, _EXAMPLE_NAMES))


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _functions(module: ModuleType, prefix: str) -> list[Any]:
    return [each for name, each in vars(module).items() if name.startswith(prefix)]


def _row(function: Any, result: str, name: str) -> str:
    cells = inspect.getdoc(function), result, f"[`{function.__name__}`](../benchmarks/triton/{name}.py)"
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |\n"


def _shown(function: Any) -> str:
    function(np.random.default_rng(0))
    return "works"


def _sentence(function: Any) -> str:
    """What the error says that *function* raises, without the place and without counts of how long a run waited."""
    try:
        function()
    except KbError as error:
        stuck = re.search("programs that wait for each other[^;]*", str(error))
        if stuck:
            return stuck[0]
        if isinstance(error, CompilationError):
            return f"{error.error_message}; {error.fix}"
        return f"got {error.got}, needs {error.needs}" + (f"; {error.fix}" if error.fix else "")
    raise AssertionError(f"{function.__name__} ran to its end: it is a feature now")


def _example(name: str) -> str:
    first = (FOLDER / f"{name}.py").read_text(encoding="utf-8").partition('"""')[2].splitlines()[0]
    return f"- [{name}](../benchmarks/triton/{name}.py): {first.removesuffix(chr(34) * 3)}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
