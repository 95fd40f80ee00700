"""Elements of an HTML page. Every text is escaped here, so that nothing that a user wrote becomes a tag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from kb_cli.terminal.escape import shown


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str | float) -> Markup:
    """The element *tag*. Children that are no Markup, and all attributes, are escaped.

    A name of an attribute is written with `_` for `-`, and with `_` at its end where it is a word of Python.
    """
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_text(value))}"' for name, value in attributes.items()
    )
    return Markup(f"<{tag}{named}>{joined(children)}</{tag}>")


def shortened(text: str, most: int) -> str:
    """*text* for a place of *most* characters; an ellipsis stands for what does not fit."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def joined(parts: Iterable[str]) -> Markup:
    """*parts* one after the other; those that are no Markup are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(shown(part)) for part in parts))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1, wide: Sequence[int] = ()) -> Markup:
    """A table that scrolls where the window is narrower. The first *text* columns, and *wide* ones, hold text."""

    def kind(at: int) -> str:
        return "text" if at < text or at in wide else "number"

    head = element("tr", *(element("th", header, class_=kind(at)) for at, header in enumerate(headers)))
    body = (element("tr", *(element("td", cell, class_=kind(at)) for at, cell in enumerate(row))) for row in rows)
    whole = element("table", element("thead", head), element("tbody", *body))
    return element("div", whole, class_="scroll")


def bar(*parts: tuple[str, float]) -> Markup:
    """A bar across its place, with a part of a class and a share (0 to 1) for each of *parts*."""
    pieces = (element("i", class_=kind, style=f"width:{100 * share:.3f}%") for kind, share in parts if share > 0)
    return element("span", *pieces, class_="bar")


def _text(value: str | float) -> str:
    return shown(value) if isinstance(value, str) else f"{value:.6g}"
