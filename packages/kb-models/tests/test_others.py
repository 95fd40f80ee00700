"""Ops of other packages in builders."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from running import check_ops

from kb_messages import BenchmarkError
from kb_models.models.builder import Builder
from kb_models.ops import others
from kb_models.ops.sums import Sum


class Double(Sum):
    """Twice an activation."""

    def __init__(self, name: str, mesh: object, x: object) -> None:
        super().__init__(name, mesh, (x, x))  # type: ignore[arg-type]


def build(m: Builder) -> None:
    m.named("block0", repeats=7)
    m.op("double", "twice", m.input("x", (5, 16), ("batch", "")))


def give(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    monkeypatch.setattr(others, "entry_points", lambda group: [EntryPoint(*each, group) for each in points])


def test_an_op_of_another_package_runs_and_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    point = SimpleNamespace(name="double", value="test_others:Double", load=lambda: Double)
    monkeypatch.setattr(others, "entry_points", lambda group: [EntryPoint("other", "nowhere:Nothing", group), point])
    ran = check_ops("one_cube", "none", build)
    assert [(op.name, op.kind, op.repeats) for op in ran.workload.ops] == [("block0.twice", "elementwise", 7)]


@pytest.mark.parametrize(
    ("points", "text"),
    [
        ([], "entry point double of kb.ops: got an unknown name, needs one of none"),
        ([("doubles", "a:b")], "got an unknown name, needs one of doubles; did you mean 'doubles'\\?"),
        ([("double", "a:b"), ("double", "c:d")], "got several: a:b, c:d, needs one package with the name"),
        ([("double", "kb_models.nowhere:Double")], "got No module named 'kb_models.nowhere', needs an op that loads"),
        ([("double", "kb_models:Builder")], "got kb_models:Builder, which is none, needs a subclass of kb_models.Op"),
    ],
)
def test_an_entry_point_that_is_no_use_is_refused(
    points: list[tuple[str, str]], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, *points)
    with pytest.raises(BenchmarkError, match=text):
        check_ops("one_cube", "none", build)
