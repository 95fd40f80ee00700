"""The style of each element of an SVG, as a browser finds it: rules of its style sheet, its attributes, its parents.

It knows what the pictures of kernbench use: classes, elements and descendants, `--names`, and
`@media (prefers-color-scheme: dark)`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from xml.etree import ElementTree

_INHERITED = {"fill", "stroke", "stroke-width", "font-size", "font-family", "font-weight", "text-anchor"}
_DARK = re.compile(r"@media\s*\(prefers-color-scheme:\s*dark\)\s*\{")
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")


class Styled(NamedTuple):
    """An element with its whole style. `transform` has the transforms of its parents and its own, outermost first."""

    element: ElementTree.Element
    style: Mapping[str, str]
    transform: str


_Path = tuple[tuple[str, str], ...]
"""The tag and the classes of an element and of all its parents, outermost first."""


class _Rule(NamedTuple):
    selector: tuple[str, ...]
    values: dict[str, str]
    weight: tuple[int, int]


def tag(element: ElementTree.Element) -> str:
    """The name of *element* without its name space."""
    return str(element.tag).rpartition("}")[2]


def styled(svg: str, dark: bool, sheet: str = "") -> list[Styled]:
    """All elements of *svg* in the order of painting, without those that are not shown. *sheet* is CSS of its page."""
    root = ElementTree.fromstring(svg)
    own = "".join(each.text or "" for each in root.iter() if tag(each) == "style")
    rules = list(_rules(sheet + own, dark))
    names = {name: text for rule in rules for name, text in rule.values.items() if name.startswith("--")}
    return list(_below(root, {}, (), "", rules, names, {}))


def _rules(css: str, dark: bool) -> Iterator[_Rule]:
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    while found := _DARK.search(css):
        end, depth = found.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(css[end], 0)
            end += 1
        css = css[: found.start()] + (css[found.end() : end - 1] if dark else "") + css[end:]
    for selectors, body in _RULE.findall(css):
        values = {
            name.strip(): text.strip() for name, _, text in (each.partition(":") for each in body.split(";")) if text
        }
        if font := re.fullmatch(r"(?:bold )?(\d+)px(?:/\S+)? (.+)", values.pop("font", "")):
            values |= {"font-size": font[1], "font-family": font[2]}
        for selector in selectors.split(","):
            weight = selector.count("."), len(re.findall(r"(?:^|\s)\w", selector.strip()))
            yield _Rule(tuple(selector.split()), values, weight)


def _below(
    element: ElementTree.Element,
    parent: Mapping[str, str],
    path: tuple[ElementTree.Element, ...],
    moved: str,
    rules: list[_Rule],
    names: dict[str, str],
    found: dict[_Path, dict[str, str]],
) -> Iterator[Styled]:
    path = (*path, element)
    style = {name: text for name, text in parent.items() if name in _INHERITED} | dict(element.attrib)
    key = tuple((tag(each), each.get("class", "")) for each in path)
    if key not in found:
        found[key] = {}
        for rule in sorted((rule for rule in rules if _matches(rule.selector, key)), key=lambda rule: rule.weight):
            found[key] |= rule.values
    style |= found[key]
    style |= dict(re.findall(r"([\w-]+)\s*:\s*([^;]+)", element.get("style", "")))
    style = {name: re.sub(r"var\((--[\w-]+)\)", lambda at: names.get(at[1], ""), text) for name, text in style.items()}
    if style.get("display") == "none":
        return
    moved = f"{moved} {element.get('transform', '')}".strip()
    yield Styled(element, style, moved)
    for child in element:
        if tag(child) not in ("defs", "title", "style"):
            yield from _below(child, style, path, moved, rules, names, found)


def _matches(selector: tuple[str, ...], path: _Path) -> bool:
    *outer, last = selector
    if not _is(last, path[-1]):
        return False
    above = list(path[:-1])
    for part in reversed(outer):
        while above and not _is(part, above[-1]):
            above.pop()
        if not above:
            return False
        above.pop()
    return True


def _is(part: str, element: tuple[str, str]) -> bool:
    name, *classes = part.split(".")
    if name == ":root":
        return element[0] == "svg"
    if re.search(r"[:#\[>*]", name):
        return name == "*"
    return (not name or name == element[0]) and set(classes) <= set(element[1].split())
