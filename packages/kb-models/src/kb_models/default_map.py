"""The layout that a model gets where the user gives none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kb_models.layout import Layout
from kb_models.models.architecture import Architecture
from kb_models.models.params import ModelParams


def default_map(
    model: Architecture,
    p: ModelParams,
    n_sips: int,
    n_cubes: int,
    fits: Callable[[Layout], bool],
) -> str:
    """The first layout that *fits*, as text for `parse_map`; the last one where none does. Layouts of the model's own
    take the place of all others.

    The axes of the model are split over the cubes of a SIP. The batch is split over the SIPs where they divide it, so
    that no SIP waits for another one; otherwise, and where the weights of the whole model do not fit one SIP, the axes
    are split over all cubes. An axis that is too short for a level is not split over that level.
    """
    found = ""
    own = list(model.layouts(p, n_sips, n_cubes))
    for layout in own or _candidates(model, p, n_sips, n_cubes):
        found = ",".join(f"{axis}={'*'.join(levels)}" for axis, levels in layout.items())
        if fits(layout):
            break
    return found or "none"


def _candidates(model: Architecture, p: ModelParams, n_sips: int, n_cubes: int) -> Iterator[dict[str, tuple[str, ...]]]:
    of_cubes = [("cube",)] if n_cubes > 1 else []
    if n_sips == 1 or p.batch % n_sips == 0:
        yield _split(model, of_cubes, n_sips, n_cubes) | ({"batch": ("sip",)} if n_sips > 1 else {})
    if n_sips > 1:
        yield _split(model, [("sip", "cube") if of_cubes else ("sip",), *of_cubes], n_sips, n_cubes)


def _split(
    model: Architecture, levels: Sequence[tuple[str, ...]], n_sips: int, n_cubes: int
) -> dict[str, tuple[str, ...]]:
    """The axes of *model*, each over the first of *levels* that have no more parts than the axis is long."""
    sizes = {"sip": n_sips, "cube": n_cubes}
    found: dict[str, tuple[str, ...]] = {}
    for axis, length in model.axes.items():
        for each in levels if axis != "hidden" else ():
            ways = 1
            for level in each:
                ways *= sizes[level]
            if ways <= length or (axis == "kv_heads" and found.get("heads") == each):
                found[axis] = each
                break
    return found
