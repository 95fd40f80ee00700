"""The layout that a model gets where the user gives none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kb_models.fit import Held
from kb_models.layout import Layout
from kb_models.models.architecture import Architecture
from kb_models.models.params import ModelParams

_CROSSING_NBYTES: Final = 2 << 20
"""The bytes of a slice that HBM reads while the all-reduces of a block cross SIPs.

Source: measured: a block of GPT-2 takes 19 us longer on `four_sip` when its sums cross SIPs, at 102.4 GB/s a slice.
"""
_LEAST_TOKENS: Final = 2
"""The fewest tokens of a cube for which cubes share the rows between products. Source: measured; a prefill of
Llama-3-8B on one_sip takes 2.15 ms in place of 2.30 with 2 tokens of a cube, and 13.3 in place of 14.6 with 32."""


def default_map(
    model: Architecture,
    p: ModelParams,
    n_sips: int,
    n_cubes: int,
    held: Callable[[str], Held],
) -> str:
    """The layout for the work of *p*, as text for `parse_map`. `held(text)` is the fullest slice with a layout.

    The axes of the model are split over the cubes of a SIP, and the batch over the SIPs where they divide it; or the
    axes are split over all cubes. In prefill, it is the first of the two that fits, because no SIP waits for another
    one then. A decode step reads what a slice holds once, so the axes are split over all cubes where the fullest slice
    then holds `_CROSSING_NBYTES` less for each block. Of layouts of the model's own, which take the place of both, it
    is the first that fits; where none fits, the last one. An axis that is too short for a level is not split over that
    level.

    The tokens of a prefill are split over all cubes where the model splits tokens, no product crosses SIPs, and each
    cube has `_LEAST_TOKENS`: a cube reads the rows of each other cube by itself, which is slow over the links between
    SIPs.
    """
    own = [_text(layout) for layout in model.layouts(p, n_sips, n_cubes)]
    layouts = own or [_text(layout) for layout in _candidates(model, p, n_sips, n_cubes)]
    if not own and p.phase == "decode" and len(layouts) > 1:
        by_batch, over_all = (held(text).total for text in layouts)
        if by_batch - over_all > _CROSSING_NBYTES * model.layers:
            layouts.reverse()
    return next((text for text in layouts if held(text).fits), layouts[-1])


def _text(layout: Layout) -> str:
    return ",".join(f"{axis}={'*'.join(levels)}" for axis, levels in layout.items()) or "none"


def _candidates(model: Architecture, p: ModelParams, n_sips: int, n_cubes: int) -> Iterator[dict[str, tuple[str, ...]]]:
    of_cubes = [("cube",)] if n_cubes > 1 else []
    if n_sips == 1 or p.batch % n_sips == 0:
        batch = {"batch": ("sip",)} if n_sips > 1 else {}
        yield _split(model, of_cubes, n_sips, n_cubes) | batch | _tokens(model, p, n_sips, n_cubes)
    if n_sips > 1:
        yield _split(model, [("sip", "cube") if of_cubes else ("sip",), *of_cubes], n_sips, n_cubes)


def _tokens(model: Architecture, p: ModelParams, n_sips: int, n_cubes: int) -> dict[str, tuple[str, ...]]:
    """The split of the tokens over all cubes, where the cubes of a SIP share the rest of the model."""
    is_long = p.phase == "prefill" and p.rows >= _LEAST_TOKENS * n_sips * n_cubes
    if n_cubes == 1 or not (model.splits_tokens and is_long):
        return {}
    return {"tokens": ("sip", "cube") if n_sips > 1 else ("cube",)}


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
