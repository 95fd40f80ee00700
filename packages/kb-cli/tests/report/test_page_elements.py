"""Elements of a page escape whatever is not HTML already."""

import pytest

from kb_cli.report.elements.page_elements import Markup, bar, element, joined, shortened, table


def test_texts_and_attributes_are_escaped() -> None:
    assert element("p", "<b>&\x1b", title='"><script>') == (
        '<p title="&quot;&gt;&lt;script&gt;">&lt;b&gt;&amp;\\x1b</p>'
    )
    assert element("p", element("b", "<"), Markup("<i>")) == "<p><b>&lt;</b><i></p>"
    assert joined(["a<", Markup("<br>")]) == "a&lt;<br>"


def test_cells_of_tables_are_escaped() -> None:
    found = table(["<x>"], [["<y>"], [element("b", "z")]])
    assert "&lt;x&gt;" in found
    assert "&lt;y&gt;" in found
    assert "<b>z</b>" in found


def test_attributes_have_the_names_of_html() -> None:
    assert element("g", class_="a", text_anchor="end", x=1 / 3) == '<g class="a" text-anchor="end" x="0.333333"></g>'


def test_a_bar_leaves_out_empty_parts() -> None:
    assert bar(("path", 0.25), ("hidden", 0.0)) == (
        '<span class="bar"><i class="path" style="width:25.000%"></i></span>'
    )


@pytest.mark.parametrize(
    ("text", "shown"), [("128", "128"), ("2 MiB", "2 MiB"), ("2 MiB / 512", "2 MiB…"), ("512 KiB / 64", "512 K…")]
)
def test_a_label_that_does_not_fit_says_so(text: str, shown: str) -> None:
    assert shortened(text, 6) == shown
