"""The part of plot.css that a picture uses, for a file of its own: other pictures' rules do not change the file."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from kb_cli.report.elements.page_elements import PLOT_STYLE, Markup

_MEDIA: Final = re.compile(r"(@media [^{]*)\{((?:[^{}]*\{[^{}]*\})*)\s*\}")
_RULE: Final = re.compile(r"\s*([^{}@]+?)\s*\{([^{}]*)\}")


def style_of(svg: str) -> Markup:
    """Returns the rules of plot.css for the classes of *svg*, and the colours that these rules use, light and dark."""
    css = re.sub(r"/\*.*?\*/", "", PLOT_STYLE, flags=re.DOTALL)
    classes = {"plot", *" ".join(re.findall(r'class="([^"]*)"', svg)).split()}
    parts = [("", _MEDIA.sub("", css)), *_MEDIA.findall(css)]
    kept = [(media, _kept(_RULE.findall(rules), classes)) for media, rules in parts]
    used = set(re.findall(r"var\((--[\w-]+)\)", str(kept)))
    lines = []
    for (media, rules), (_, whole) in zip(kept, parts, strict=True):
        colours = [each for each in _colours(whole) if each.partition(":")[0] in used]
        body = [f":root {{ {'; '.join(colours)} }}"] if colours else []
        body += [f"{selector} {{{values}}}" for selector, values in rules]
        text = "\n".join(body)
        lines += [f"{media}{{\n{text}\n}}" if media else text] if body else []
    return Markup("\n" + "\n".join(lines) + "\n")


def _kept(rules: Collection[tuple[str, str]], classes: Collection[str]) -> list[tuple[str, str]]:
    return [
        (selector, values)
        for selector, values in rules
        if selector.startswith("svg.plot") and set(re.findall(r"\.([\w-]+)", selector)) <= set(classes)
    ]


def _colours(css: str) -> list[str]:
    return re.findall(r"--[\w-]+: [^;]+", " ".join(values for name, values in _RULE.findall(css) if name == ":root"))
