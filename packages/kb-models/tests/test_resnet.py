"""ResNets of all published depths have their published parameters, and a small one runs, every op as numpy has it."""

import json
from typing import Any

import pytest
from running import check_ops, chip

from kb_messages import BenchmarkError
from kb_models.find import CONFIGS
from kb_models.models.params import ModelParams
from kb_models.models.registry import architecture_of
from kb_models.models.resnet import ResNet

BASIC = {"layer_type": "basic", "hidden_sizes": [64, 128, 256, 512]}
SMALL = {"image_size": 17, "embedding_size": 4, "hidden_sizes": [8, 12], "depths": [1, 1], "num_labels": 5}


def resnet(**changes: Any) -> ResNet:
    config = json.loads((CONFIGS / "resnet-50.json").read_text(encoding="utf-8")) | changes
    found = architecture_of(config, "m")
    assert isinstance(found, ResNet)
    return found


@pytest.mark.parametrize(
    ("changes", "parameters", "convolutions"),
    [
        ({}, 25_557_032, 53),
        ({"depths": [3, 4, 23, 3]}, 44_549_160, 104),
        ({"depths": [3, 8, 36, 3]}, 60_192_808, 155),
        (BASIC | {"depths": [2, 2, 2, 2]}, 11_689_512, 20),
        (BASIC | {"depths": [3, 4, 6, 3]}, 21_797_672, 36),
    ],
)
def test_published_parameters(changes: dict[str, Any], parameters: int, convolutions: int) -> None:
    """Source: the page of torchvision's models. A network of n layers has n - 1 convolutions besides its shortcuts."""
    model = resnet(**changes)
    assert model.parameters == parameters
    assert len(model.layers_of_the_whole) == convolutions


def test_the_names_of_classes_count() -> None:
    named = resnet(num_labels=None, id2label={str(number): "a name" for number in range(10)})
    assert named.parameters == 25_557_032 - 990 * 2049


@pytest.mark.parametrize("kind", ["bottleneck", "basic"])
def test_a_small_network_over_two_cubes(kind: str) -> None:
    """17 x 17 pixels, 9 x 9 after the stem, 5 x 5 and 3 x 3 in the stages: none of them divides by two cubes."""
    mesh = {"$.cubes_per_sip": "2", "$.sip.cube_mesh.rows": "1", "$.sip.cube_mesh.cols": "2"}
    two = chip("one_sip", mesh | {"$.sip.links[0].to": '"cube[0:2].ucie[0]"'})
    model = resnet(**SMALL, layer_type=kind)
    ran = check_ops(two, "pixels=cube,vocab=cube", lambda m: model.build(m, ModelParams(phase="prefill", batch=2)))
    named = [op.name for op in ran.workload.ops]
    assert named[:3] == ["stem", "pool", "stage1.block1.shortcut"]
    assert len(named) == 2 + sum(len(block.layers) + 1 for block in model.blocks) + 2
    assert named[-2:] == ["mean", "classes"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"depths": [3, 4]}, "m: depths: got 2 stages, needs 4, as hidden_sizes has"),
        ({"depths": [3, 4, 0, 3]}, "m: depths: got .*, needs a list of integers of 1 or more"),
        ({"hidden_sizes": "wide"}, "m: hidden_sizes: got wide, needs a list"),
        ({"hidden_sizes": [256, 512, 1024, 2050]}, "multiples of 4"),
        ({"layer_type": "bottlenek"}, "m: layer_type: got .*; did you mean 'bottleneck'"),
        ({"hidden_act": "gelu"}, 'm: hidden_act: got "gelu", needs "relu"'),
        ({"id2label": ["cat"]}, "m: id2label: got"),
    ],
)
def test_wrong_values_get_a_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchmarkError, match=said):
        resnet(**changes)


def test_quantised_weights_are_refused() -> None:
    with pytest.raises(BenchmarkError, match="weights: got int8, needs same; convolutions of quantised weights"):
        resnet().build(None, ModelParams(phase="prefill", weights="int8"))  # type: ignore[arg-type]  # looks at p first
