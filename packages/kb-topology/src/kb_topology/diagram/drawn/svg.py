"""The SVG text of a picture with coordinates, with colours for light and for dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from kb_topology.diagram.chart import Heat
from kb_topology.diagram.drawn.heat_colours import HEAT_COLOURS, ON_HEAT, PAGES, heat_step
from kb_topology.diagram.drawn.legend import entries
from kb_topology.diagram.drawn.scene import (
    HEADING,
    LABEL,
    LINE,
    MARGIN,
    TEXT,
    TITLE,
    Placed,
    Polyline,
    Scene,
    text_width,
)

FILLS = {
    "outside": ("#e7e9ec", "#3a3f46"),
    "io": ("#efe3d3", "#4d4436"),
    "fabric": ("#dbe6f1", "#33424f"),
    "memory": ("#dcebdf", "#34483a"),
    "compute": ("#e8e0f0", "#443c50"),
    "command": ("#f3e0e0", "#503a3c"),
    "group": ("#f2f3f5", "#2c3036"),
}
STROKES = {"memory": ("#3f7d52", "#86c79a"), "data": ("#3b6a96", "#8ab6dd"), "command": ("#a05252", "#dd9c9c")}
TEXTS = ("#22262b", "#e6e9ec")
BUNDLE = 3.6
"""Pixels of a line that is several links."""
RIM = 1.6
"""Pixels of grey on both sides of a busy line together, because little heat is near to the colour of the page."""
UNMEASURED = (("#f6f7f8", "#23272c"), ("#c3c8ce", "#4a5058"))
"""Fill and stroke of parts that no counter measures, and the stroke of idle parts."""


def step(heat: Heat | None) -> str:
    """The name of the colour of *heat*: `cold`, `warm0` to `warm7`, or `none` for an unmeasured part."""
    if heat is None:
        return "none"
    return f"warm{heat_step(heat.top)}" if heat.top > 0 else "cold"


def style_sheet(measured: bool) -> str:
    """The colours as CSS. They follow the reader's choice of light or dark."""
    light, dark = ("".join(_rules(measured, page)) for page in (0, 1))
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(measured: bool, page: int) -> list[str]:
    rules = [
        f"text{{fill:{TEXTS[page]}}}",
        f".page{{fill:{PAGES[page]}}}",
        f"rect{{stroke:{('#7b838c', '#7b838c')[page]}}}",
        f".tip{{fill:{('#5b636c', '#aab2bb')[page]}}}",
    ]
    if not measured:
        rules += [f".{name}{{fill:{colours[page]}}}" for name, colours in FILLS.items()]
        rules += [f".to-{name}{{stroke:{colours[page]}}}" for name, colours in STROKES.items()]
        return [*rules, f".bundle{{stroke-width:{BUNDLE}px}}"]
    fill, stroke = UNMEASURED[0][page], UNMEASURED[1][page]
    rules += [f".none,.cold{{fill:{fill}}}", f".to-none,.to-cold{{stroke:{stroke};stroke-width:1.2px}}"]
    rules += [".none{stroke-dasharray:4 3}.to-none{stroke-dasharray:4 3}"]
    for number, (colours, texts) in enumerate(zip(HEAT_COLOURS, ON_HEAT, strict=True)):
        rules.append(f".warm{number}{{fill:{colours[page]}}}.on-warm{number} text{{fill:{texts[page]}}}")
        width = 1.6 + 0.5 * number
        rules.append(f".to-warm{number}{{stroke:{colours[page]};stroke-width:{width:g}px}}")
        rules.append(f".rim-warm{number}{{stroke:{stroke};stroke-width:{width + RIM:g}px}}")
    thin = ("none", "cold", "warm0", "warm1", "warm2", "warm3")
    rules.append(f"{','.join(f'.to-{name}.bundle' for name in thin)}{{stroke-width:{BUNDLE}px}}")
    rims = ",".join(f".rim-{name}.bundle" for name in thin[2:])
    return [*rules, f"{rims}{{stroke-width:{BUNDLE + RIM}px}}"]


def render(scene: Scene) -> str:
    """*scene* as one SVG document."""
    return "\n".join(_lines(scene)) + "\n"


def _lines(scene: Scene) -> Iterator[str]:
    size = f'width="{scene.width:.0f}" height="{scene.height:.0f}" viewBox="0 0 {scene.width:.0f} {scene.height:.0f}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield f"<title>{escape(scene.chart.title)}</title>"
    yield (
        "<style>svg{color-scheme:light dark}"
        f"text{{font:{TEXT}px Helvetica,Arial,sans-serif}}text.heading{{font-size:{HEADING}px;font-weight:bold}}"
        f"text.title{{font-size:{TITLE}px;font-weight:bold}}text.label{{font-size:{LABEL}px}}"
        f".page{{stroke:none}}path{{fill:none;stroke-width:1.5px}}{style_sheet(scene.chart.measured)}"
        "rect.page,path.tip{stroke:none}</style>"
    )
    yield '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="10" markerHeight="10" '
    yield 'markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
    yield '<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
    yield '<rect class="page" width="100%" height="100%"/>'
    yield _text(scene.chart.title, MARGIN, 32, "heading")
    yield _text(scene.chart.subtitle, MARGIN, 51, "line")
    # busy lines are drawn last, in front of idle ones
    for path in sorted(scene.paths, key=lambda path: path.heat.top if path.heat else -1.0):
        if scene.chart.measured and step(path.heat) not in ("none", "cold"):
            points = "L".join(f"{x:.1f} {y:.1f}" for x, y in path.points)
            yield f'<path class="rim-{step(path.heat)}{" bundle" * path.bundle}" d="M{points}"/>'
        yield _path(path, scene.chart.measured)
    for placed in scene.boxes:
        yield from _box(placed, scene.chart.measured)
    for label in scene.labels:
        yield _text(label.text, label.x, label.y, "label", label.anchor)
    yield from _scale(scene) if scene.chart.measured else _legend(scene)
    for number, text in enumerate((scene.chart.note, *scene.chart.facts)):
        yield _text(text, MARGIN, scene.foot + 56 + LINE * number, "label")
    yield "</svg>"


def _path(path: Polyline, measured: bool) -> str:
    points = "L".join(f"{x:.1f} {y:.1f}" for x, y in path.points)
    ends = ' marker-end="url(#arrow)"' * path.arrow + ' marker-start="url(#arrow)"' * path.both
    css = f"to-{step(path.heat) if measured else path.line}" + " bundle" * path.bundle
    tip = f"<title>{escape(path.tip)}</title>"
    return (
        f'<path class="{css}" d="M{points}"{ends}>{tip}</path>'
        if path.tip
        else f'<path class="{css}" d="M{points}"{ends}/>'
    )


def _box(placed: Placed, measured: bool) -> Iterator[str]:
    box = placed.box
    css = step(box.heat) if measured else box.style
    part = f' data-part="{escape(box.part)}"' if box.part else ""
    yield f'<g class="on-{css}"{part}>' + (f"<title>{escape(box.tip)}</title>" if box.tip else "")
    yield (
        f'<rect class="{css}" x="{placed.x:.1f}" y="{placed.y:.1f}" width="{placed.width:.1f}" '
        f'height="{placed.height:.1f}" rx="5"/>'
    )
    middle = placed.x + placed.width / 2
    first = placed.y + (placed.height - LINE * len(box.lines)) / 2 + 5
    yield _text(box.title, middle, first, "line" if box.is_small else "title", "middle")
    for number, line in enumerate(box.lines, start=1):
        yield _text(line, middle, first + LINE * number, "line", "middle")
    yield "</g>"


def _text(text: str, x: float, y: float, css: str, anchor: str = "start") -> str:
    end = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}"{end}>{escape(text)}</text>'


def _legend(scene: Scene) -> Iterator[str]:
    """The meaning of the colours in use."""
    y = scene.foot + 24
    for each in entries(scene.chart, any(path.bundle for path in scene.paths)):
        x = MARGIN + each.x
        if each.is_line:
            yield f'<path class="{each.css}" d="M{x:.1f} {y - 4:.1f}h18"/>'
        else:
            yield f'<rect class="{each.css}" x="{x:.1f}" y="{y - 10:.1f}" width="14" height="12" rx="2"/>'
        yield _text(each.word, MARGIN + each.text_x, y, "line")


def _scale(scene: Scene) -> Iterator[str]:
    """The colours from little use to full use, of idle parts, and of parts that no counter measures."""
    x, y = float(MARGIN), scene.foot + 24
    yield _text("time in service", x, y, "line")
    x += text_width("time in service", TEXT) + 4
    for number in range(len(HEAT_COLOURS)):
        yield f'<rect class="warm{number}" x="{x:.1f}" y="{y - 10:.1f}" width="26" height="12"/>'
        if number % 2 == 0:
            yield _text(f"{100 * number / len(HEAT_COLOURS):g}", x, y + 13, "label", "middle")
        x += 26
    yield _text("100 %", x, y + 13, "label", "middle")
    for name, word in (("cold", "idle"), ("none", "not measured")):
        x += 32
        yield f'<rect class="{name}" x="{x:.1f}" y="{y - 10:.1f}" width="26" height="12"/>'
        yield _text(word, x + 32, y, "line")
        x += 32 + text_width(word, TEXT)
