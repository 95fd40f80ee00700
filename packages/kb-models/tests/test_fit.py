"""Whether a model fits a chip, and the layout that a model gets where the user gives none."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from running import chip

from kb_messages import BenchmarkError, DType
from kb_models import Architecture, Builder, ConfigKeys, ModelParams
from kb_models.default_map import default_map
from kb_models.find import CONFIGS
from kb_models.fit import Held, check_fit, fullest_slice
from kb_models.layout import Mesh, parse_map
from kb_models.models.registry import architecture_of

GIB = 1 << 30


class Sized(Architecture):
    """A model of which only the lengths of the axes matter."""

    def __init__(self, keys: ConfigKeys) -> None:
        self.layers = 6
        self._axes: Mapping[str, int] = keys.get("axes")

    @property
    def parameters(self) -> int:
        return 0

    @property
    def axes(self) -> Mapping[str, int]:
        return self._axes

    def build(self, m: Builder, p: ModelParams) -> None:
        x = m.input("x", (p.batch, 64), ("batch", ""))
        for number, repeats in self.simulated(p):
            m.named(f"block{number}", repeats)
            x = m.linear("down", m.linear("up", x, 512, "mlp"), 64, "hidden")


def held(layout: str, layers: int = 1, batch: int = 8) -> Held:
    """The fullest slice of a cube of 8 slices, for six blocks of 64 x 512 and 512 x 64 in f16."""
    topology = chip("one_cube")
    mesh = Mesh.of(topology, parse_map(layout))
    m = Builder(mesh, DType.F16)
    Sized(ConfigKeys({}, "m")).build(m, ModelParams(layers=layers, batch=batch))
    return fullest_slice(m.ops, mesh, topology)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_slice_holds_the_weights_of_all_blocks_and_the_activations_of_those_that_run(layers: int) -> None:
    """By hand: six blocks have 2 * 64 * 512 weights, an eighth of them in each slice. x is of 8 x 64, and a block adds
    8 x 512 and 8 x 64."""
    found = held("none", layers)
    assert found.nbytes == {
        "weight": 6 * 2 * 64 * 512 * 2 // 8,
        "activation": (8 * 64 + layers * (8 * 512 + 8 * 64)) * 2 // 8,
    }
    assert (found.capacity, found.fits) == (2 * GIB, True)


def refusal(
    nbytes: Mapping[str, float], forms: Sequence[str] = ("int8", "int4", "fp8"), batch: int = 1, **mesh: Any
) -> str:
    made = Mesh([[[0]] * mesh.get("cubes", 1)] * mesh.get("sips", 1), parse_map(mesh.get("layout", "none")))
    of_slice: Any = {role: int(size * GIB) for role, size in nbytes.items()}
    with pytest.raises(BenchmarkError) as caught:
        check_fit("m", Held("sip0.cube0.hbm0", of_slice, 2 * GIB), made, forms, batch)
    return str(caught.value)


def test_a_model_that_does_not_fit_is_refused_with_what_would_fit() -> None:
    assert refusal({"weight": 3.5, "cache": 0.2, "activation": 0.001}) == (
        "m: got 3.7 GiB in sip0.cube0.hbm0 (weights 3.5, cache 0.2), needs at most 2.0 GiB; "
        "take weights=fp8 or int8 or int4; shard over 2 SIPs, of which this chip has 1"
    )
    assert refusal({"weight": 7.5}).endswith("; take weights=int4; shard over 4 SIPs, of which this chip has 1")
    assert refusal({"weight": 7.5}, forms=()).endswith("2.0 GiB; shard over 4 SIPs, of which this chip has 1")
    assert refusal({"weight": 1, "cache": 4}, batch=8).endswith(
        "(cache 4.0, weights 1.0), needs at most 2.0 GiB; a batch of 2 fits; shard over 3 SIPs, of which this chip "
        "has 1"
    )
    assert refusal({"weight": 3}, sips=4, layout="batch=sip,mlp=cube").endswith(
        "take weights=fp8 or int8 or int4; split mlp over sip*cube"
    )


def test_a_model_that_fits_is_not_refused() -> None:
    check_fit("m", Held("hbm0", {"weight": 2 * GIB}, 2 * GIB), Mesh([[[0]]], {}), (), 1)


AXES = {"heads": 64, "kv_heads": 8, "mlp": 100, "hidden": 4096}
OVER_CUBES, OVER_ALL = "heads=cube,kv_heads=cube,mlp=cube", "heads=sip*cube,kv_heads=sip*cube,mlp=sip*cube"


def room(**gib: float) -> Callable[[str], Held]:
    """A slice of 2 GiB, which holds *gib* with a layout that splits the batch (`batch`) or with another one (`all`)."""

    def held(text: str) -> Held:
        return Held("hbm0", {"weight": int(gib["batch" if "batch" in text else "all"] * GIB)}, 2 * GIB)

    return held


SMALL = room(batch=1, all=1)


def chosen(
    axes: Mapping[str, int], sips: int, cubes: int, batch: int, held: Callable[[str], Held] = SMALL, **other: Any
) -> str:
    return default_map(Sized(ConfigKeys({"axes": axes}, "m")), ModelParams(batch=batch, **other), sips, cubes, held)


def test_axes_go_to_cubes_and_the_batch_to_sips_where_that_fits() -> None:
    assert chosen(AXES, 1, 1, 8) == "none"
    assert chosen(AXES, 1, 16, 8) == OVER_CUBES
    assert chosen(AXES, 4, 16, 8) == f"{OVER_CUBES},batch=sip"
    assert chosen(AXES, 4, 16, 6) == OVER_ALL
    assert chosen(AXES, 4, 16, 8, room(batch=3, all=1)) == OVER_ALL
    assert chosen(AXES, 4, 16, 8, room(batch=3, all=3)) == OVER_ALL
    assert chosen(AXES, 4, 1, 1) == "heads=sip,kv_heads=sip,mlp=sip"


@pytest.mark.parametrize(
    ("held", "layout"),
    [
        (room(batch=1.01171875 + 2**-30, all=1), OVER_ALL),  # 12 MiB and a byte less for 6 blocks
        (room(batch=1.01171875, all=1), f"{OVER_CUBES},batch=sip"),
        (room(batch=1, all=1.5), f"{OVER_CUBES},batch=sip"),
    ],
)
def test_a_decode_step_crosses_sips_where_slices_then_hold_much_less(held: Any, layout: str) -> None:
    assert chosen(AXES, 4, 16, 8, held, phase="decode") == layout
    assert chosen(AXES, 4, 16, 8, held, phase="prefill") == f"{OVER_CUBES},batch=sip"


def test_an_axis_that_is_too_short_is_split_less() -> None:
    axes = {"heads": 12, "kv_heads": 12, "mlp": 100}
    assert chosen(axes, 1, 16, 1) == "mlp=cube"
    assert chosen(axes, 4, 8, 1) == "heads=cube,kv_heads=cube,mlp=sip*cube"


@pytest.mark.parametrize(
    ("sips", "batch", "tokens", "end"),
    [
        (1, 1, 32, "vocab=cube,tokens=cube"),  # two rows for each of 16 cubes
        (1, 1, 31, "vocab=cube"),
        (4, 4, 32, "batch=sip,tokens=sip*cube"),
        (4, 1, 512, "vocab=sip*cube"),  # sums cross SIPs
    ],
)
def test_cubes_share_the_tokens_of_a_prefill(sips: int, batch: int, tokens: int, end: str) -> None:
    model = architecture_of(json.loads((CONFIGS / "llama3-8b.json").read_text(encoding="utf-8")), "llama3-8b")
    params = ModelParams(phase="prefill", batch=batch, tokens=tokens)
    assert default_map(model, params, sips, 16, SMALL).endswith(end)


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.json")))
def test_every_bundled_model_has_a_layout(name: str) -> None:
    model = architecture_of(json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8")), name)
    for sips, cubes in ((1, 1), (1, 16), (4, 16)):
        layout = parse_map(default_map(model, ModelParams(), sips, cubes, SMALL))
        mesh = Mesh([[[0]] * cubes] * sips, layout)
        mesh.check({"batch": 1, **model.axes})
        assert bool(layout) == (sips * cubes > 1)
