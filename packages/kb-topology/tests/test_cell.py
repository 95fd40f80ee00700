"""A chip in a notebook and at a prompt: its sizes, and pictures that meet nothing of the page."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kb_topology import load_topology, loads_topology
from kb_topology.diagram import draw, themed_style

CHIPS = sorted((Path(__file__).parents[3] / "topologies").rglob("*.yaml"))
ONE_PE = Path(__file__).parents[3] / "topologies" / "one_pe.yaml"


def pictures(html: str) -> list[str]:
    return [b64decode(each).decode() for each in re.findall(r"base64,([\w+/=]+)\"", html)]


def test_the_text_has_the_sizes() -> None:
    assert repr(load_topology(ONE_PE)).splitlines() == [
        "one_pe",
        "  One PE with one HBM slice behind one XBAR.",
        "  1 SIP, 1 cube, 1 PE",
        "  memories: 1 x hbm of 2 GiB, 1 x tcm of 2 MiB, 1 x reg of 512 KiB",
        "  links: 1 x pe_dma - xbar of 128 GB/s, 1 x xbar - hbm of 102.4 GB/s",
    ]


@pytest.mark.parametrize("path", CHIPS, ids=lambda path: path.stem)
def test_every_bundled_chip_has_a_small_cell_with_a_picture(path: Path) -> None:
    topology = load_topology(path)
    html = topology._repr_html_()
    assert len(html) < 100_000
    assert pictures(html)
    outside = re.sub(r'src="[^"]*"', "", html)
    assert " id=" not in outside
    assert "<svg" not in outside


def test_a_chip_of_several_cubes_shows_them_and_one_of_them() -> None:
    topology = load_topology(ONE_PE.with_name("one_sip.yaml"))
    found = pictures(topology._repr_html_())
    assert found == [draw(topology, "sip"), draw(topology, "cube")]
    assert all(ElementTree.fromstring(each).tag.endswith("svg") for each in found)


def test_texts_of_the_file_are_escaped_and_slow_pes_are_named() -> None:
    text = ONE_PE.read_text().replace("One PE with", "<script>alert(1)</script> with")
    html = loads_topology(f"{text}\nslow: {{pe0: 2}}\n")._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; with" in html
    assert "slow PEs: sip0.cube0.pe0 x 2" in html


def test_a_style_follows_the_theme_of_its_page() -> None:
    style = themed_style("mine", "a:1", "a:2")
    assert style.startswith(
        ".mine{color-scheme:light;a:1}@media(prefers-color-scheme:dark){.mine{color-scheme:dark;a:2}}"
    )
    assert style.index('[data-jp-theme-light="false"]') > style.index('[data-jp-theme-light="true"]')
    assert style.endswith(".mine{color-scheme:dark;a:2}")
