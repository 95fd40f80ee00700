"""Elements of an HTML page, and its style. Every text is escaped here, so no text of a user becomes a tag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from kb_cli.terminal.escape import shown


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str | float) -> Markup:
    """Returns the element *tag*. Children that are no Markup, and all attributes, are escaped.

    The name of an attribute is written with `_` for `-`, and with `_` at its end where it is a word of Python.
    """
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_text(value))}"' for name, value in attributes.items()
    )
    return Markup(f"<{tag}{named}>{joined(children)}</{tag}>")


def shortened(text: str, most: int) -> str:
    """Returns *text* cut to *most* characters, with an ellipsis at the cut."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def joined(parts: Iterable[str]) -> Markup:
    """Returns *parts* one after the other. Parts that are no Markup are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(shown(part)) for part in parts))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1, wide: Sequence[int] = ()) -> Markup:
    """Returns a table that scrolls in a narrow window. The first *text* columns, and *wide* ones, hold text."""

    def kind(at: int) -> str:
        return "text" if at < text or at in wide else "number"

    head = element("tr", *(element("th", header, class_=kind(at)) for at, header in enumerate(headers)))
    body = (element("tr", *(element("td", cell, class_=kind(at)) for at, cell in enumerate(row))) for row in rows)
    whole = element("table", element("thead", head), element("tbody", *body))
    return element("div", whole, class_="scroll")


def bar(*parts: tuple[str, float]) -> Markup:
    """Returns a bar with a piece for each of *parts*, a class and a share (0 to 1)."""
    pieces = (element("i", class_=kind, style=f"width:{100 * share:.3f}%") for kind, share in parts if share > 0)
    return element("span", *pieces, class_="bar")


def bar_of(*parts: tuple[str, float]) -> Markup:
    """Returns a bar with a piece for each of *parts*, a colour of CSS and a share (0 to 1)."""
    pieces = (element("i", style=f"background:{ink};width:{100 * share:.1f}%") for ink, share in parts if share > 0)
    return element("span", *pieces, class_="bar")


def section(title: str, text: str, *parts: str) -> Markup:
    """Returns a section with a sentence below its title."""
    soft = [element("p", text, class_="soft")] if text else []
    return element("section", element("h2", title), *soft, *parts)


def folded_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], most: int, text: int = 1, wide: Sequence[int] = ()
) -> Markup:
    """Returns a table of the first *most* of *rows*, and one of the others that opens."""
    if len(rows) <= most + 2:
        return table(headers, rows, text, wide)
    rest = element("summary", f"{len(rows) - most} more")
    return joined(
        [table(headers, rows[:most], text, wide), element("details", rest, table(headers, rows[most:], text, wide))]
    )


def _text(value: str | float) -> str:
    return shown(value) if isinstance(value, str) else f"{value:.6g}"


PLOT_STYLE: Final = Markup(files("kb_cli.report.elements").joinpath("plot.css").read_text(encoding="utf-8"))
"""The style of pictures with axes, for pages and for files of their own."""
STYLE: Final = """
:root { color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --soft: #59636e; --rule: #d5dbe1; --panel: #f4f6f8;
  --path: #2a78d6; --hidden: #a9cbf3; --hbm: #2a78d6; --sram: #b55d0a; --reg: #167a52;
  --bad: #b3261e; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171a; --ink: #e4e8ec; --soft: #9ba6b1; --rule: #343b43; --panel: #1c2127;
  --path: #5b9df0; --hidden: #2f5079; --hbm: #6aa9f5; --sram: #e59a4e; --reg: #52c493;
  --bad: #ff8a80; --warn: #e0b050; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 48px; max-width: 1080px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 15px; font-weight: 600; color: var(--soft); margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 26px 0 4px; padding-top: 12px; border-top: 1px solid var(--rule); }
p { margin: 4px 0 12px; } p.soft, figcaption { color: var(--soft); font-size: 13.5px; }
p.sentence { font-size: 21px; line-height: 1.4; margin: 0 0 16px; overflow-wrap: anywhere; }
p.note { color: var(--warn); overflow-wrap: anywhere; } .bad { color: var(--bad); font-weight: 600; }
dl.figures { display: flex; flex-wrap: wrap; gap: 10px; margin: 0; }
dl.figures div { background: var(--panel); border-radius: 6px; padding: 8px 14px; }
dl.figures dt { color: var(--soft); font-size: 13px; } dl.figures dd { margin: 0; font-size: 17px; }
.scroll { overflow-x: auto; --edge: color-mix(in srgb, var(--ink) 28%, transparent);
  background: linear-gradient(to right, var(--page) 40%, transparent) 0 0 / 40px 100% no-repeat local,
    linear-gradient(to left, var(--page) 40%, transparent) 100% 0 / 40px 100% no-repeat local,
    linear-gradient(to right, var(--edge), transparent) 0 0 / 12px 100% no-repeat scroll,
    linear-gradient(to left, var(--edge), transparent) 100% 0 / 12px 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--rule); }
th, td { padding: 3px 18px 3px 0; vertical-align: top; white-space: nowrap; }
th.number, td.number { text-align: right; } th.text, td.text { text-align: left; }
.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 220px; }
.bar { display: inline-flex; width: 220px; height: 11px; margin-top: 6px; background: var(--panel); border-radius: 2px;
  overflow: hidden; }
.bar i { display: block; height: 100%; }
i.path { background: var(--path); } i.hidden { background: var(--hidden); }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px;
  vertical-align: -1px; }
.key span { margin-right: 18px; }
code, pre, .source { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 13px; }
.source td { padding: 0 12px 0 0; white-space: pre; line-height: 1.55; } .source td.number { color: var(--soft); }
.source .bar { width: 110px; margin-top: 5px; } .source tr.dear td { background: var(--panel); }
.source tr.dear td.number { color: var(--ink); } .source tr.gap td { color: var(--soft); }
figure { margin: 0 0 18px; }
.lanes { display: grid; grid-template-columns: minmax(0, 310px) minmax(160px, 1fr); gap: 0 12px; align-items: center; }
.lanes > div:first-child, .lanes .titles { font-size: 12.5px; color: var(--soft); white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
.lanes .titles div { height: 16px; line-height: 14px; overflow: hidden; text-overflow: ellipsis; }
.picture { position: relative; background: var(--grid, none), var(--panel); overflow: hidden; }
.picture i { position: absolute; inset: 0; mask: var(--png) 0 0 / 100% 100% no-repeat; image-rendering: pixelated; }
.picture, .bar, .key i { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.axis { position: relative; height: 18px; font-size: 12px; color: var(--soft); overflow: hidden; }
.axis span { position: absolute; padding-left: 4px; border-left: 1px solid var(--rule); white-space: nowrap; }
.axis .last { padding: 0 4px 0 0; border: 0; border-right: 1px solid var(--rule); transform: translateX(-100%); }
.time figure { margin: 8px 0 6px; } .time details figure { margin-left: 0; }
summary { cursor: pointer; } summary:focus-visible { outline: 2px solid var(--path); }
details > summary { list-style: none; position: relative; padding-left: 16px; }
details > summary::-webkit-details-marker { display: none; }
details > summary::before { content: "\\25B8"; position: absolute; left: 0; color: var(--soft); font-size: 13px; }
details[open] > summary::before { content: "\\25BE"; }
.strip > summary .lanes { grid-template-columns: minmax(0, 294px) minmax(160px, 1fr); }
.strip .strip > summary { padding-left: 28px; } .strip .strip > summary::before { left: 12px; }
.strip .strip > summary .lanes { grid-template-columns: minmax(0, 282px) minmax(160px, 1fr); }
.strip .strip .strip > summary { padding-left: 40px; } .strip .strip .strip > summary::before { left: 24px; }
.strip .strip .strip > summary .lanes { grid-template-columns: minmax(0, 270px) minmax(160px, 1fr); }
.pes .pes, .pes > .pe { margin-left: 16px; } .pe { margin-left: 16px; } summary > .pe { margin-left: 0; }
.pe { display: grid; grid-template-columns: minmax(0, 300px) 220px minmax(0, 1fr); gap: 0 14px; font-size: 14px;
  padding: 2px 0; }
.pe > div { overflow-wrap: anywhere; } .pe > .bar { max-width: 100%; } .pes > .pe { color: var(--soft); }
@media (max-width: 420px) { section svg.plot { overflow: visible; } section svg.plot text { font-size: 14.4px; } }
@media (max-width: 560px) { body { padding: 16px 12px; } p.sentence { font-size: 18px; } .bar { width: 120px; }
  .source td:nth-child(-n+4):not(:nth-child(2)) { display: none; } .wrap { min-width: 130px; } }
@media (max-width: 760px) { .lanes, .strip > summary .lanes, .strip .strip > summary .lanes { gap: 0 8px;
    grid-template-columns: minmax(0, 38%) minmax(0, 1fr); } .pe { grid-template-columns: minmax(0, 1fr) 140px; }
  .pe > :last-child { grid-column: 1 / -1; color: var(--soft); margin-bottom: 4px; } }
"""
