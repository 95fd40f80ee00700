"""Blocks of another maker that fail: the error names the block's line, wherever the block is installed."""

import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from kb_engine.engine.engine import Engine
from kb_engine.engine.registry import GROUP, Registry
from kb_engine.host import Host
from kb_engine.program.author import author_errors
from kb_messages import PlanError, TopologyError

PLACE = "toy.yaml:14:32: $.cube.pe_template.nodes.pe_gemm.impl: "


@pytest.fixture
def bought(tmp_path, monkeypatch, toy_chip, toy_points):
    """An engine for the toy chip whose PE_GEMM has the method *text*. Its module lies where packages are installed."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(author_errors, "_LIBRARIES", (*author_errors._LIBRARIES, str(tmp_path)))

    def build(text):
        lines = "import engine_toys", "from kb_messages import PlanError", "class Unit(engine_toys.Gemm):", text, ""
        (tmp_path / "bought_unit.py").write_text("\n".join(lines), encoding="utf-8")
        monkeypatch.delitem(sys.modules, "bought_unit", raising=False)
        chip = toy_chip(("impl: toy.gemm}", "impl: bought.gemm}"))
        points = [*toy_points, EntryPoint("bought.gemm", "bought_unit:Unit", GROUP)]
        return Engine(chip, None, registry=Registry(points))

    return build


def explained(engine, root):
    """What is said of the launch of a product on *engine*, which fails."""

    def kernel(tl, a, b, c):
        tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))

    host = Host(engine, root)
    a, b = (host.tensor(name, np.ones((16, 16), np.float16), "f16") for name in "ab")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each test says which
        host.launch(kernel, a, b, host.empty("c", (16, 16), "f16"))
    return str(author_errors.explain(caught.value, root, "launch() to succeed"))


def test_a_method_that_fails_is_named_with_its_line(bought, request):
    said = explained(bought("    def service_ps(self, params):\n        return {}[3]"), request.path.parent)
    assert said.startswith(
        "bought_unit.py:5: got KeyError: 3, needs Unit.service_ps to raise no exception; see the frames below"
    )
    assert 'bought_unit.py", line 5, in service_ps' in said


def test_a_process_that_fails_is_named_with_the_line_of_its_helper(bought, request):
    """SimPy raises the exception again, without the frames of the process."""
    text = "    def process(self, token):\n        yield from helper()\ndef helper():\n    yield {}[3]"
    said = explained(bought(text), request.path.parent)
    assert said.startswith("bought_unit.py:7: got KeyError: 3, needs Unit.process to raise no exception")


def test_what_a_block_refuses_is_reported_at_the_authors_line(bought, monkeypatch, request):
    """Also where the block's file is no library, as in an editable install."""
    monkeypatch.setattr(author_errors, "_LIBRARIES", author_errors._LIBRARIES[:-1])
    engine = bought("    def begin(self, token, finish):\n        raise PlanError('unit', 'this plan', 'another')")
    line = explained.__code__.co_firstlineno + 9
    assert (
        explained(engine, request.path.parent) == f"test_failing_blocks.py:{line}: unit: got this plan, needs another"
    )


def test_what_a_block_refuses_at_its_wires_passes_as_it_is(bought):
    with pytest.raises(PlanError) as caught:
        bought("    def connect(self): raise PlanError('unit', 'this wire', 'another')")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    def connect(self): {}[3]", "connect raised KeyError(3) at bought_unit.py:4, needs a block that can be"),
        (
            "    def gates(self, stage): {}[3]",
            "gates raised KeyError(3) at bought_unit.py:4, needs a block that can be",
        ),
        ("    def __init__(self, *a): {}[3]", "__init__ raised KeyError(3) at bought_unit.py:4, needs a block that"),
        ("    def __init__(self, *a): pass", "__init__ calls no super().__init__(spec, context), needs a block that"),
    ],
)
def test_a_block_that_cannot_be_made_and_wired_is_named_at_its_place_in_the_file(bought, text, said):
    with pytest.raises(TopologyError) as caught:
        bought(text)
    assert str(caught.value).startswith(f"{PLACE}got bought.gemm, whose {said}")
