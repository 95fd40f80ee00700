"""The style of a result in a cell: that of our pages, within one element and under the theme of the notebook."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from kb_cli.report.elements.page_elements import PLOT_STYLE, STYLE, Markup, element
from kb_cli.report.elements.stage_colours import colours_css
from kb_topology.diagram import themed_style

_CLASS: Final = "kb-cell"
_DARK: Final = re.compile(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{([^}]*)\}\s*\}")
_LIGHT: Final = re.compile(r":root \{([^}]*)\}")
_OWN: Final = """
 & { background: var(--page); color: var(--ink); padding: 14px 18px; border-radius: 6px; max-width: 980px;
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
 h1 { font-size: 17px; color: var(--ink); } h2 { font-size: 14px; margin: 18px 0 2px; padding-top: 8px; }
 p.sentence { font-size: 14px; line-height: 1.5; margin: 0 0 10px; } p.soft { font-size: 13px; margin: 2px 0 6px; }
 dl.figures { margin: 0 0 8px; } dl.figures dd { font-size: 15px; } summary { cursor: pointer; color: var(--soft); }
 table { margin: 0; table-layout: auto; font-size: 13px; border: 0; } th, td { background: none; line-height: 1.5; }
 tbody tr:nth-child(n), tbody tr:nth-child(n):hover { background: none; }
 th, td { padding: 2px 14px 2px 0; } .bar { width: 140px; margin-top: 5px; } p { margin: 2px 0 4px; }
 section, details, .scroll { margin: 0 0 6px; } code { background: none; color: inherit; padding: 0; }
"""
"""What differs from a page: a cell is small, and Jupyter has rules of its own for tables, which ours have to beat."""


def in_cell(*parts: str) -> str:
    """Returns *parts* in one element with its style. The style reaches nothing outside of the element."""
    return element("div", element("style", Markup(_sheet())), *parts, class_=_CLASS)


@cache
def _sheet() -> str:
    pages = re.sub(r"/\*.*?\*/", "", f"{colours_css()}{STYLE}{PLOT_STYLE}", flags=re.DOTALL)
    dark = "".join(_DARK.findall(pages))
    pages = _DARK.sub("", pages)
    light = "".join(_LIGHT.findall(pages))
    sheet = f"{themed_style(_CLASS, light, dark)}.{_CLASS}{{{_LIGHT.sub('', pages)}{_OWN}}}"
    return re.sub(r"\s+", " ", sheet.replace("color-scheme: light dark;", ""))  # the element's own holds for all in it
