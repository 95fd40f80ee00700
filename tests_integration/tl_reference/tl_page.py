"""docs/tl.md, from the docstrings of the kernel language and the examples beside this file.

`python tests_integration/tl_reference/tl_page.py` writes it anew.
"""

import inspect
import operator
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from tl_given import Example

from kb_components.pe.pe_math import FUNCTIONS, FunctionClass
from kb_engine import HostValue, Language
from kb_engine.program import Handle, TensorRef

PAGE = Path(__file__).parents[2] / "docs" / "tl.md"
COMMAND = "python tests_integration/tl_reference/tl_page.py"
_MODULES = [
    *(
        "programs",
        "memory",
        "math",
        "special",
        "integers",
        "along",
        "combining",
        "layouts",
        "random",
        "dot_products",
        "shapes",
        "atomics",
        "messages",
        "looking",
    ),
    *("machine", "epilogues", "values", "tensors", "known"),
]
SECTIONS = [import_module(f"tl_{name}") for name in _MODULES]
EXAMPLES = {name: each for module in SECTIONS for name, each in vars(module).items() if isinstance(each, Example)}

SUBJECTS: dict[str, tuple[type, str]] = {
    "tl": (Language, "tl"),
    "value": (Handle, "x"),
    "tensor": (TensorRef, "a"),
    "known": (HostValue, "v"),
}
"""The class that the first word of an example's name stands for, and the name before the dot in the page."""
NOT_FOR_KERNELS = {
    "tl": "arithmetic convert wait_until_done leave stored constants reordered sliced evaluate notify_wrapped_index",
    "value": "matrix operators look settle reordered note_wrap wrapped_at",
    "tensor": (
        "tensor indices copy copy_near asked_shape asked_dimensions indexed every_index matrix part is_in_one_block "
        "plain_matrix is_column"
    ),
    "known": "form of broadcast_to transposed integers",
}
"""Public names of the classes that other classes call, and kernels do not."""

_INTRODUCTION = """\
# Reference of `tl`

`tl` is the first argument of every kernel. This page describes each of its functions: its effect, its cost, and an
example that a test runs. [Write a kernel](write-kernels.md) shows how the functions go together. The page is made
from the docstrings, by `{command}`.

| in a signature | means |
| --- | --- |
| `TensorRef` | a tensor in memory, or elements of one: an argument of the kernel, `a[m0:m1, k0:k1]` |
| `Handle`, `LoadedTensor`, `CompositeHandle`, ... | a value in TCM: the result of a load, math, a dot or a composite |
| `HostValue` | integers or booleans that are known while the kernel runs: `tl.arange`, and results computed from it |
| `Argument` | a `Handle`, a `HostValue` or a number |
| `Factor`, `Transposed` | a tensor in memory or a value in TCM, as it is stored or transposed |
| `EpilogueOperand` | a tensor in memory or a value in TCM |

In the examples `y` is the result, and the other arguments are small tensors: `x`, `z`, `odd` and `parts` are matrices
of f32, and `cube` has three dimensions; `row` is a vector; `a` and `b` are of f16; `i`, `j` and `ids` are of i32.

## Cost of math

A vector program is one command of FETCH, MATH and STORE stages. Each of its ops is a MATH stage, which takes a number
of cycles of PE_MATH for each group of elements. A group has as many elements as PE_MATH has `lanes`. `kb report` says
how much of the time each kernel line took.

| class | cycles |
| --- | --- |
| elementwise | 1 a group |
| transcendental | `transcendental_cycles` a group, 4 by default |
| reduction | 1 a group; over the last axis also `ceil(log2(min(columns, lanes)))` a row, for a tree over the lanes |
| scan | over rows 1 a group; over the last axis `ceil(log2(min(columns, lanes))) + 1` a group |
| sort | `k (k + 1) / 2` a group, with `k = ceil(log2(n))` of n elements along the axis |
| merge | `k` a group, with the same `k`: of two sorted blocks of a row that does not fit the registers |
| gather | for each group of the index, 1 for each group of the row that it chooses from; over rows 1 for each row |
| histogram | 1 an element |
| philox | 10 a group for each of its rounds, which are 10 |
"""


def page() -> str:
    """The text of docs/tl.md."""
    parts = [_INTRODUCTION.format(command=COMMAND), _contents()]
    for module in SECTIONS:
        title, _, text = inspect.getdoc(module).partition("\n\n")
        parts.append(f"## {title}\n\n{_flowed(text)}\n{_common(module)}")
        parts += [_entry(name, example) for name, example in _examples(module)]
    return "\n".join([*parts, _operators()])


def op_of(name: str) -> str | None:
    """The math function that the example *name* computes; None if it shows no math."""
    subject, _, attribute = name.partition("_")
    op = {"full": "fill", "zeros": "fill", "xor_sum": "reduce_xor", "to": "copy"}.get(attribute, attribute)
    return op if not EXAMPLES[name].cost and (subject == "tl" or attribute == "to") else None


def public(subject: str) -> set[str]:
    """The public names of *subject* for kernels."""
    names = {name for each in SUBJECTS[subject][0].__mro__[:-1] for name in vars(each) if not name.startswith("_")}
    return names - set(NOT_FOR_KERNELS[subject].split())


def operators() -> dict[str, str]:
    """The operators of values in TCM, by their names in `operator`, with the math function of each."""

    class Names:
        def arithmetic(self, op: str, *_: Any) -> Any:
            return op

    class Probe(Handle):
        def __init__(self) -> None:
            self.operators: Any = Names()

        dtype = None

    named = [name for name in vars(Handle) if name in vars(operator) and callable(vars(operator)[name])]
    chosen = [name for name in named if name not in ("__getitem__", "__setitem__", "__index__")]
    unary = ("__neg__", "__invert__")
    return {name: getattr(Probe, name)(*[Probe()] * (1 if name in unary else 2)) for name in chosen}


def _common(module: Any) -> str:
    """The docstring of the class of a section's functions."""
    found = [each for each in Language.__mro__ if each.__name__ == getattr(module, "COMMON", None)]
    return "".join(f"\n{_flowed(inspect.getdoc(each) or '')}\n" for each in found)


def _examples(module: Any) -> list[tuple[str, Example]]:
    return [(name, each) for name, each in vars(module).items() if isinstance(each, Example)]


def _title(name: str) -> str:
    subject, _, attribute = name.partition("_")
    before = SUBJECTS[subject][1]
    return f"{before}[...]" if attribute == "index" else f"{before}.{attribute}"


def _contents() -> str:
    lines = []
    for module in SECTIONS:
        title = inspect.getdoc(module).partition("\n\n")[0]
        links = ", ".join(f"[`{_title(name)}`](#{_anchor(_title(name))})" for name, _ in _examples(module))
        lines.append(f"- [{title}](#{_anchor(title)}): {links}")
    return "\n".join(["## Contents\n", *lines, "- [Operators](#operators)\n"])


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _entry(name: str, example: Example) -> str:
    subject, _, attribute = name.partition("_")
    found = inspect.getattr_static(SUBJECTS[subject][0], "__getitem__" if attribute == "index" else attribute)
    member = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    title = _title(name)
    is_call = not (isinstance(found, property) or attribute == "index")
    shown = f"```py\n{title}{_signature(member)}\n```\n\n" if is_call else ""
    doc = inspect.getdoc(member) or (inspect.getdoc(SUBJECTS[subject][0]) if attribute == "index" else None)
    assert doc, f"{title} has no docstring"
    cost = _class_cost(name) or example.cost
    return f"### {title}\n\n{shown}{_flowed(doc)}\n\nCost: {cost}.\n\n```py\n{example.lines}\n```\n"


def _class_cost(name: str) -> str:
    op = op_of(name)
    return "" if op is None else f"one op of a vector program, {FUNCTIONS[op].value}"


def _signature(function: Any) -> str:
    """As `inspect.signature`, with annotations as they are written."""
    given = inspect.signature(function)
    texts, is_by_name = [], False
    for each in given.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not is_by_name:
            texts.append("*")
            is_by_name = True
        star = "*" if each.kind is each.VAR_POSITIONAL else ""
        default = "" if each.default is each.empty else f" = {each.default!r}"
        texts.append(f"{star}{each.name}: {each.annotation}{default}")
    line = f"({', '.join(texts)}) -> {given.return_annotation}"
    return line if len(line) < 110 else "(\n    " + ",\n    ".join(texts) + f",\n) -> {given.return_annotation}"


def _flowed(text: str) -> str:
    """Paragraphs of one line each."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _operators() -> str:
    rows = ["| operator | math function | class |", "| --- | --- | --- |"]
    for name, op in operators().items():
        text = re.fullmatch(r"Same as (.*)\.", vars(operator)[name].__doc__)[1]
        shown = text.replace("|", "\\|")
        rows.append(f"| `{shown}` | {op} | {FUNCTIONS.get(op, FunctionClass.ELEMENTWISE).value} |")
    text = """\
## Operators

Operators of values in TCM are math, one op of a vector program each. The other operand is a value, known integers or a
number, on either side. `~` of booleans is `not`.
"""
    return "\n".join([text, *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
