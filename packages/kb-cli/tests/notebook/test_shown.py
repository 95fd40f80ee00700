"""Results in a notebook: self-contained HTML that meets nothing of its page, and a text at a prompt."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from msgspec.structs import asdict, replace

import kernbench as kb
from kb_cli.notebook.cell_style import in_cell
from kb_cli.notebook.run_cell import report_of

X = np.ones((16, 64), np.float32)
EVIL = '<img src=x onerror="alert(1)">'
VOID = {"img", "br", "meta"}


class Checked(HTMLParser):
    """Reads HTML: its tags in order, all text outside of the style, and the style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = self.style = ""
        self._open: list[str] = []
        self.feed(html)
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        assert not names & {"id", "onclick", "onload", "onerror", "href"}, (tag, attrs)
        assert tag not in ("script", "iframe", "link", "object")
        assert (dict(attrs).get("src") or "data:").startswith("data:")
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["style"]:
            self.style += data
        else:
            self.text += data


def checked(found: Any) -> Checked:
    html = found._repr_html_()
    assert len(html) < 100_000
    assert "url(" not in html
    return Checked(html)


def add(tl: Any, x: Any, y: Any, rows: int) -> None:
    for first in range(0, x.shape[0], rows):
        tl.store(y[first : first + rows, :], tl.load(x[first : first + rows, :]) + 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> kb.KernelRun:
    folder = tmp_path_factory.mktemp("runs")
    reference = X + 1
    return kb.run(add, X, kb.empty(X.shape, "f32"), 8, pes=[0], chip="one_pe", folder=folder, reference=reference)


@pytest.fixture(scope="module")
def other() -> kb.KernelRun:
    """The same with blocks of 16 rows, without a folder."""
    return kb.run(add, X, kb.empty(X.shape, "f32"), 16, pes=[0], chip="one_pe")


def test_a_cell_has_the_sentence_the_path_the_lines_and_the_roofline(run: kb.KernelRun) -> None:
    found = checked(run)
    assert found.text.startswith(f"add on one_pe: {run.latency_ns:.3f} ns{run.advice}latency of the kernels")
    for title in ("Where the time went", "Lines", "Roofline"):
        assert title in found.text
    assert "tl.store(y[first : first + rows, :], tl.load(x[first : first" in found.text
    assert found.tags.count("svg") == 1
    bars = run._repr_html_().count('class="bar"')
    assert bars == len(run.where) + len([line for line in run.lines if line.ps])


def test_a_run_in_memory_has_the_report_of_its_folder(run: kb.KernelRun) -> None:
    assert run.folder is not None
    assert asdict(report_of(run)) == asdict(kb.read_report(run.folder))


def test_texts_are_escaped(run: kb.KernelRun) -> None:
    report = replace(report_of(run), benchmark=EVIL, sentence=EVIL, notes=[EVIL])
    found = checked(report)
    assert found.text.count(EVIL) == 3
    assert "img" not in found.tags


def test_a_run_of_a_thousand_lines_has_a_small_cell(run: kb.KernelRun) -> None:
    report = report_of(run)
    numbers = range(1000)
    lines = [replace(report.lines[0], line=f"kernel.py:{number}", text="x" * 200) for number in numbers]
    (point,) = [each for each in report.roofline.points if each.line]
    points = [replace(point, line=f"kernel.py:{number}", flops=1000 + number) for number in numbers]
    path = [replace(report.path[0], what=f"work {number}") for number in numbers]
    found = checked(replace(report, lines=lines, path=path, roofline=replace(report.roofline, points=points)))
    assert "992 other lines" in found.text
    assert "1,000 marks are too many for a cell" in found.text


def test_the_style_reaches_nothing_outside_and_follows_the_theme(run: kb.KernelRun) -> None:
    sheet = checked(run).style
    assert sheet == Checked(in_cell()).style, "every cell has one style, so two agree"
    depth, selector, selectors = 0, "", list[str]()
    for each in sheet:
        depth += {"{": 1, "}": -1}.get(each, 0)
        if each == "{" and (depth == 1 or (depth == 2 and selectors[-1].startswith("@media(prefers"))):
            selectors.append(selector.strip())
        selector = "" if each in "{}" else selector + each
    assert depth == 0
    assert [each for each in selectors if ".kb-cell" not in each] == ["@media(prefers-color-scheme:dark)"]
    assert len(selectors) == 6, "light, the reader's dark, dark, light by the page, dark by the page, and the rules"
    assert ":root" not in sheet
    for name in ("--page", "--colour-0"):
        assert sheet.count(f"{name}:") == 4, "each theme gives each colour, twice"


def test_a_comparison_needs_no_folders(run: kb.KernelRun, other: kb.KernelRun, tmp_path: Path) -> None:
    found = kb.compare(run, other)
    assert found.change_ps == other.latency_ps - run.latency_ps
    assert sum(each.change_ps for each in found.rows) == found.change_ps
    assert found.after == "add"
    again = kb.run(add, X, kb.empty(X.shape, "f32"), 16, pes=[0], chip="one_pe", folder=tmp_path)
    assert run.folder is not None
    assert kb.compare(run.folder, again).rows == found.rows
    cell = checked(found)
    assert "parameter rows: 8 -> 16" in cell.text
    assert cell.tags.count("details") == 1
    assert "by line" in cell.text
    assert repr(found).startswith("What is different:\n  parameter rows: 8 -> 16\nlatency ")
    assert "before" in checked(kb.compare(other, other)).text


def test_a_sweep_has_its_fastest_points_and_pictures(invoke: Callable[..., Result], tmp_path: Path) -> None:
    sizes = ["-p", "M=32", "-p", "N=32", "-p", "K=32", "-p", "tile=16x16x16,32x32x32"]
    changed = [
        "--set",
        "$.cube.nodes.hbm.bw_gbs=51.2,102.4",
        "--topology",
        "one_pe",
        "--out",
        str(tmp_path),
        "--jobs",
        "1",
    ]
    assert invoke("sweep", "gemm", *sizes, *changed).exit_code == 0
    (folder,) = tmp_path.glob("gemm-*")
    sweep = kb.read_sweep(str(folder))
    cell = checked(sweep)
    assert cell.text.startswith("Sweep of gemm on one_pe, M=32, N=32, K=32: 4 points")
    assert cell.tags.count("svg") == 3
    assert cell.text.count("32x32x32") >= 2
    assert "fastest points, by latency" in repr(sweep)


def test_a_prompt_shows_the_text(run: kb.KernelRun) -> None:
    assert repr(run) == str(run)
    assert run.folder is not None
    text = repr(kb.read_report(run.folder))
    assert text.startswith(f"add on one_pe: {run.latency_ns:.3f} ns")
    assert "where the time went" in text


def test_levers_are_shown_when_they_are_measured(other: kb.KernelRun) -> None:
    assert "<h2>Levers</h2>" not in other._repr_html_()
    assert other.measured == []
    (best,) = other.levers(most=1)[:1]
    assert best in other.measured
    assert best.sentence in checked(other).text


def test_a_run_of_times_alone_has_a_cell() -> None:
    r = kb.run(add, X, kb.empty(X.shape, "f32"), 16, pes=[0], chip="one_pe", compute=False)
    assert "Where the time went" in checked(r).text
