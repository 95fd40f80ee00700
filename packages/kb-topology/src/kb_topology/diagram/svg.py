"""From a picture with coordinates to SVG text. Colours follow the reader's choice of light or dark."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from kb_topology.diagram.scene import FOOT, LABEL, LINE, MARGIN, TEXT, TITLE, Label, Placed, Polyline, Scene, text_width

_FILLS = {
    "outside": ("#e7e9ec", "#3a3f46"),
    "io": ("#efe3d3", "#4d4436"),
    "fabric": ("#dbe6f1", "#33424f"),
    "memory": ("#dcebdf", "#34483a"),
    "compute": ("#e8e0f0", "#443c50"),
    "command": ("#f3e0e0", "#503a3c"),
    "group": ("#f2f3f5", "#2c3036"),
}
_STROKES = {"memory": ("#3f7d52", "#86c79a"), "data": ("#3b6a96", "#8ab6dd"), "command": ("#a05252", "#dd9c9c")}
_WORDS = {
    "outside": "outside the SIPs",
    "io": "IO",
    "fabric": "fabric",
    "memory": "memory",
    "compute": "compute",
    "command": "control",
    "group": "holds more",
}
_LINES = {"memory": "to HBM", "data": "data", "command": "commands"}


def render(scene: Scene) -> str:
    """*scene* as one SVG document."""
    return "\n".join(_lines(scene)) + "\n"


def _lines(scene: Scene) -> Iterator[str]:
    size = f'width="{scene.width:.0f}" height="{scene.height:.0f}" viewBox="0 0 {scene.width:.0f} {scene.height:.0f}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield f"<title>{escape(scene.chart.title)}</title>"
    yield f"<style>{_style()}</style>"
    yield '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
    yield 'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
    yield '<rect class="page" width="100%" height="100%"/>'
    yield _text(scene.chart.title, MARGIN, 30, "heading")
    yield _text(scene.chart.subtitle, MARGIN, 49, "line")
    yield from map(_path, scene.paths)
    for placed in scene.boxes:
        yield from _box(placed)
    for label in scene.labels:
        yield from _label(label)
    yield from _legend(scene)
    yield "</svg>"


def _style() -> str:
    light = [f".{name}{{fill:{colours[0]}}}" for name, colours in _FILLS.items()]
    light += [f".to-{name}{{stroke:{colours[0]}}}" for name, colours in _STROKES.items()]
    dark = [f".{name}{{fill:{colours[1]}}}" for name, colours in _FILLS.items()]
    dark += [f".to-{name}{{stroke:{colours[1]}}}" for name, colours in _STROKES.items()]
    return (
        f"text{{font:{TEXT}px sans-serif;fill:#22262b}}text.heading{{font-size:18px;font-weight:bold}}"
        f"text.title{{font-size:{TITLE}px;font-weight:bold}}"
        f"text.label,text.halo{{font-size:{LABEL}px}}text.halo{{fill:#fff;stroke:#fff;stroke-width:3px}}"
        "rect{stroke:#7b838c}.page{fill:#fff;stroke:none}path{fill:none;stroke-width:1.5}.tip{fill:#5b636c;stroke:none}"
        f"{''.join(light)}@media(prefers-color-scheme:dark){{text{{fill:#e6e9ec}}text.halo{{fill:#1b1e22;stroke:#1b1e22}}"
        f".page{{fill:#1b1e22}}.tip{{fill:#aab2bb}}{''.join(dark)}}}"
    )


def _path(path: Polyline) -> str:
    points = "L".join(f"{x:.1f} {y:.1f}" for x, y in path.points)
    ends = ' marker-end="url(#arrow)"' * path.arrow + ' marker-start="url(#arrow)"' * path.both
    return f'<path class="to-{path.line}" d="M{points}"{ends}/>'


def _box(placed: Placed) -> Iterator[str]:
    box = placed.box
    yield (
        f'<rect class="{box.style}" x="{placed.x:.1f}" y="{placed.y:.1f}" width="{placed.width:.1f}" '
        f'height="{placed.height:.1f}" rx="5"/>'
    )
    middle = placed.x + placed.width / 2
    yield _text(box.title, middle, placed.y + 22, "title", "middle")
    for number, line in enumerate(box.lines, start=1):
        yield _text(line, middle, placed.y + 22 + LINE * number, "line", "middle")


def _label(label: Label) -> Iterator[str]:
    """The text in front of its outline in the colour of the page, so that lines keep clear of the text."""
    for css in ("halo", "label"):
        yield _text(label.text, label.x, label.y, css, label.anchor)


def _text(text: str, x: float, y: float, css: str, anchor: str = "start") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _legend(scene: Scene) -> Iterator[str]:
    """The meaning of the colours in use, and how to read a label."""
    x, y = float(MARGIN), scene.height - FOOT + 24
    for style in _FILLS:
        if any(placed.box.style == style for placed in scene.boxes):
            yield f'<rect class="{style}" x="{x:.1f}" y="{y - 10:.1f}" width="14" height="12" rx="2"/>'
            yield _text(_WORDS[style], x + 20, y, "line")
            x += 20 + text_width(_WORDS[style], TEXT) + 16
    for line, word in _LINES.items():
        if any(path.line == line for path in scene.paths):
            yield f'<path class="to-{line}" d="M{x:.1f} {y - 4:.1f}h18"/>'
            yield _text(word, x + 24, y, "line")
            x += 24 + text_width(word, TEXT) + 16
    yield _text(scene.chart.note, MARGIN, y + 22, "label")
