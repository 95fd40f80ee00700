"""Progress in a notebook: one display of the cell with a bar, which is empty in the end."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kb_cli.run.base import progress
from kb_cli.terminal import cell_line
from kb_cli.terminal.cell_line import new_status_line


class Publisher:
    """A stand-in for the `display_pub` of IPython: it keeps all that is published."""

    def __init__(self) -> None:
        self.published: list[dict[str, Any]] = []

    def publish(self, **given: Any) -> None:
        self.published.append(given)

    @property
    def texts(self) -> list[str]:
        return [each["data"]["text/plain"] for each in self.published]


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """The publisher of a notebook in which progress shows at once."""
    found = Publisher()
    shell = SimpleNamespace(kernel=object(), display_pub=found)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(cell_line, "_FIRST_S", 0.0)
    return found


def test_one_display_is_updated_and_empty_in_the_end(publisher: Publisher) -> None:
    line, other = new_status_line(), new_status_line()
    line.show(["row 1 of 2, pass 1 (time)", "<b>"], 0.25)
    line.show(["saving"])
    line.clear()
    line.clear()
    other.show(["sweep"], 7.0)
    first, second, last, of_other = publisher.published
    assert first["data"]["text/plain"] == "row 1 of 2, pass 1 (time)  <b>"
    assert first["data"]["text/html"].startswith('<div><progress max="1" value="0.250" ')
    assert first["data"]["text/html"].endswith("row 1 of 2, pass 1 (time)  &lt;b&gt;</div>")
    assert "value" not in second["data"]["text/html"], "a bar of no known share moves"
    assert last["data"] == {"text/html": "", "text/plain": ""}
    assert [each["update"] for each in publisher.published] == [False, True, True, False]
    assert first["transient"] == second["transient"] == last["transient"] != of_other["transient"]
    assert 'value="1.000"' in of_other["data"]["text/html"]


def test_a_run_shows_its_phases_and_leaves_nothing(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    kb.run("gemm", M=64, N=64, K=64, chip="one_pe")
    assert {"set-up", "verification"} <= {text.partition(":")[0] for text in publisher.texts}
    assert any(text.startswith("pass 1 (time)") and "stages" in text for text in publisher.texts)
    assert publisher.texts[-1] == ""
    assert capsys.readouterr().err == ""


def test_a_short_run_and_one_that_fails_leave_nothing(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tl: Any, x: Any) -> None:
        tl.store(x, tl.load(x))

    with pytest.raises(kb.KbError):
        kb.run(fails, np.ones(8, np.float32), chip="one_pe")
    assert publisher.texts[-1] == ""
    publisher.published.clear()
    monkeypatch.setattr(cell_line, "_FIRST_S", 60.0)
    kb.run("gemm", M=16, N=16, K=16, chip="one_pe")
    assert publisher.published == []


def test_ipython_on_a_terminal_has_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(display_pub=Publisher())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert not isinstance(new_status_line(), cell_line.CellLine)
