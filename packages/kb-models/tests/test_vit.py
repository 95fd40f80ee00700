"""Vision transformers have their published parameters, and a small one runs, every op as numpy has it."""

import json
from typing import Any

import pytest
from running import check_ops, chip

from kb_messages import BenchmarkError
from kb_models.find import CONFIGS
from kb_models.models.params import ModelParams
from kb_models.models.registry import architecture_of
from kb_models.models.vit import ViT

BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
SMALL = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "image_size": 12,
    "patch_size": 4,
    "num_labels": 5,
}


def vit(**changes: Any) -> ViT:
    config = json.loads((CONFIGS / "vit-large.json").read_text(encoding="utf-8")) | changes
    found = architecture_of(config, "m")
    assert isinstance(found, ViT)
    return found


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [({}, 304_326_632), ({"patch_size": 32}, 306_535_400), (BASE, 86_567_656), (BASE | {"patch_size": 32}, 88_224_232)],
)
def test_published_parameters(changes: dict[str, Any], parameters: int) -> None:
    """Source: the page of torchvision's models."""
    assert vit(**changes).parameters == parameters


@pytest.mark.parametrize("layout", ["heads=cube,kv_heads=cube,mlp=cube,vocab=cube", "batch=cube"])
def test_a_small_model_over_two_cubes(layout: str) -> None:
    """9 patches and a class token, and 3 heads over 2 cubes."""
    mesh = {"$.cubes_per_sip": "2", "$.sip.cube_mesh.rows": "1", "$.sip.cube_mesh.cols": "2"}
    two = chip("one_sip", mesh | {"$.sip.links[0].to": '"cube[0:2].ucie[0]"'})
    model = vit(**SMALL)
    ran = check_ops(two, layout, lambda m: model.build(m, ModelParams(phase="prefill", batch=2, tokens=10, layers=2)))
    times = ran.latency_ps
    blocks = [{name[7:]: time for name, time in times.items() if name.startswith(f"block{n}.")} for n in (0, 1)]
    assert blocks[0] == blocks[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"patch_size": 15}, "m: patch_size: got 15, needs a divisor of image_size, 224"),
        ({"num_attention_heads": 15}, "m: num_attention_heads: got 15, needs a divisor of hidden_size, 1024"),
        ({"hidden_act": "relu"}, 'm: hidden_act: got "relu", needs "gelu"'),
    ],
)
def test_wrong_values_get_a_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchmarkError, match=said):
        vit(**changes)


def test_another_number_of_tokens_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="tokens: got 64, needs 197, the patches of an image of 224 x 224"):
        vit().build(None, ModelParams(phase="prefill", tokens=64))  # type: ignore[arg-type]  # looks at p first
