"""The examples of docs/tl.md give what numpy gives, and cost what the page says."""

import json
import operator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kb_dataexec import read_log
from kb_engine import Language

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent / "tl_reference")
    tl, given = import_module("tl_page"), import_module("tl_given")


def commands(example: Any, folder: Path) -> dict[int, list[str]]:
    """The stages of each command of a run: their names, and for math the function."""
    example = example._replace(options={**example.options, "folder": folder, "keep": "all"})
    found: dict[int, list[str]] = {}
    for record in read_log(example.run().folder / "log").records():
        found.setdefault(record.command_seq, []).append(json.loads(record.params).get("op", record.name))
    return found


@pytest.mark.parametrize("name", [name for name in tl.EXAMPLES if not tl.op_of(name)])
def test_an_example_gives_what_numpy_gives(name: str) -> None:
    tl.EXAMPLES[name].run()


@pytest.mark.parametrize("name", [name for name in tl.EXAMPLES if tl.op_of(name)])
def test_math_gives_what_numpy_gives_by_an_op_of_the_function_whose_class_is_named(name: str, tmp_path: Path) -> None:
    assert any(tl.op_of(name) in stages for stages in commands(tl.EXAMPLES[name], tmp_path).values())


FREE = [name for name, each in tl.EXAMPLES.items() if each.cost.startswith(given.NO_COMMAND) and name.startswith("tl_")]


@pytest.mark.parametrize("name", FREE)
def test_what_takes_no_command_issues_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, issued = name.partition("_")[2], []
    original = getattr(Language, attribute)

    def watched(self: Language, *args: Any, **named: Any) -> Any:
        before = self._port.commands_issued
        result = original(self, *args, **named)
        issued.append(self._port.commands_issued - before)
        return result

    monkeypatch.setattr(Language, attribute, watched)
    tl.EXAMPLES[name].run()
    assert set(issued) == {0}


STAGES = {
    "tl_load": [["dma_read"], ["dma_read"], ["fetch", "add", "store"], ["dma_write"]],
    "tl_load_async": [["dma_read"], ["dma_read"], ["fetch", "mul", "store"], ["dma_write"]],
    "tl_dot": [
        *(["dma_read"], ["dma_read"], ["fetch", "gemm"]),
        *(["dma_read"], ["dma_read"], ["fetch", "gemm"]),
        *(["store"], ["dma_write"]),
    ],
    "tl_composite": [["dma_read", "dma_read", "fetch", "gemm", "store", "dma_write"]],
    "tl_wait": [["dma_read", "fetch", "exp", "store", "dma_write"]],
    "tl_relu": [["dma_read", "dma_read", "fetch", "gemm", "relu", "store", "dma_write"]],
    "tl_cast": [["dma_read", "dma_read", "fetch", "gemm", "copy", "store", "dma_write"]],
    "tl_atomic_max": [["dma_read"], ["dma_write"], ["dma_read"], ["maximum"]],
    "tl_atomic_xchg": [["dma_read"], ["dma_write"], ["dma_read", "fill"], ["fetch", "mul", "store"], ["dma_write"]],
}


@pytest.mark.parametrize("name", STAGES)
def test_commands_have_the_stages_that_the_page_names(name: str, tmp_path: Path) -> None:
    assert list(commands(tl.EXAMPLES[name], tmp_path).values()) == STAGES[name]


INTEGERS = ["floordiv", "mod", "lshift", "rshift", "and_", "or_", "xor", "invert"]


@pytest.mark.parametrize("name", tl.operators())
def test_an_operator_gives_what_numpy_gives(name: str) -> None:
    function = vars(operator)[name]
    names = ("i", "positive") if function.__name__ in INTEGERS else ("x", "z")
    arrays = [np.abs(given.INPUTS["j"]) if each == "positive" else given.INPUTS[each] for each in names]
    chosen = arrays[: 1 if function in (operator.neg, operator.invert) else 2]

    def kernel(tl: Language, values: Any, y: Any) -> None:
        tl.store(y, function(*map(tl.load, values)))

    expected = function(*(each.astype(np.float64) if each.dtype.kind == "f" else each for each in chosen))
    result = kb.empty(expected.shape, {"f": "f32", "i": "i32", "b": "bool"}[expected.dtype.kind])
    kb.run(kernel, chosen, result, pes=[0]).check(expected)
