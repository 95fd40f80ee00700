"""The effect of each axis of a sweep on the latency, as SVG: a row for each axis, a dot for each value."""

from __future__ import annotations

from collections.abc import Iterator

from kb_cli.report.elements.page_elements import Markup, element, shortened
from kb_cli.report.pictures.scale import Scale, scale
from kb_cli.sweep.sensitivity import Effect
from kb_cli.sweep.sweep import SweepResult

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _BOTTOM = 900, 210, 30, 12, 54, 40
_NEAR = 46
"""The distance in pixels below which the label of a dot is left out; the title of the dot has it."""


def axes_picture(result: SweepResult) -> Markup | None:
    """Returns the effects of *result* as a picture; None where no axis has a known effect."""
    effects = [effect for effect in result.sensitivity.effects if effect.swing is not None]
    if not effects:
        return None
    ratios = [ratio for effect in effects for ratio in effect.ratios.values() if ratio is not None]
    x = scale([*ratios, 1.0], _LEFT, _WIDTH - _RIGHT, log=min(ratios) * 4 < max(ratios))
    bottom = _TOP + _ROW * len(effects)
    parts = [*_frame(x, bottom)]
    for number, effect in enumerate(effects):
        parts += _row(effect, _TOP + _ROW * (number + 0.5), x)
    label = "latency with each value of each axis over that with the first value"
    return element("svg", *parts, viewBox=f"0 0 {_WIDTH} {bottom + _BOTTOM}", role="img", aria_label=label)


def _frame(x: Scale, bottom: float) -> Iterator[Markup]:
    for value in x.marks():
        yield element("line", x1=x.at(value), y1=_TOP, x2=x.at(value), y2=bottom, class_="rule")
        yield element("text", f"{value:g}x", x=x.at(value), y=bottom + 17, text_anchor="middle", class_="soft")
    yield element("line", x1=x.at(1.0), y1=_TOP, x2=x.at(1.0), y2=bottom, class_="peak")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    said = "latency over that with the axis's first value"
    yield element("text", said, x=middle, y=bottom + 34, text_anchor="middle", class_="soft")


def _row(effect: Effect, y: float, x: Scale) -> Iterator[Markup]:
    yield element("text", effect.axis, x=_LEFT - 14, y=y + 4, text_anchor="end")
    known = [(value, ratio) for value, ratio in effect.ratios.items() if ratio is not None]
    places = [x.at(ratio) for _, ratio in known]
    yield element("line", x1=min(places), y1=y, x2=max(places), y2=y, class_="reach")
    labelled: list[float] = []
    for (value, ratio), place in zip(known, places, strict=True):
        title = element("title", f"{effect.axis} {value}: {ratio:.4g}x")
        yield element("circle", title, cx=round(place, 1), cy=y, r=5, class_="best")
        if all(abs(place - other) > _NEAR for other in labelled):
            labelled.append(place)
            yield element(
                "text", shortened(value, 14), x=round(place, 1), y=y - 10, text_anchor="middle", class_="soft"
            )
