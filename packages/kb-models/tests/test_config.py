"""Configurations of models: the parameters of the bundled ones, and sentences about keys that no builder takes."""

import json
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from kb_messages import BenchmarkError
from kb_models.find import CONFIGS
from kb_models.models import registry
from kb_models.models.registry import architecture_of

PUBLISHED = {
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "qwen2.5-7b": 7_615_616_512,
    "mixtral-8x7b": 46_702_792_704,
    "resnet-50": 25_557_032,
    "vit-large": 304_326_632,
    "gpt2": 124_439_808,
    "bert-large": 335_141_888,
}
"""Source: the number of parameters on the page of each model on huggingface.co; of networks of images, torchvision."""


def config(name: str, **changes: Any) -> dict[str, Any]:
    """The bundled configuration *name* with *changes*; a key whose change is `...` is left out."""
    found = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8")) | changes
    return {key: value for key, value in found.items() if value is not ...}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_add_up_to_the_published_number(name: str) -> None:
    assert architecture_of(config(name), name).parameters == PUBLISHED[name]


def test_every_bundled_configuration_has_a_published_number() -> None:
    assert {path.stem for path in CONFIGS.glob("*.json")} == set(PUBLISHED)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model_type": ...}, "m: model_type: got no value, needs one of bert, gpt2, llama, mistral, mixt"),
        ({"model_type": "lama"}, "m: model_type: got 'lama', which no builder knows, needs one of"),
        ({"hidden_size": ...}, "m: hidden_size: got no value, needs an integer"),
        ({"hidden_size": "4096"}, 'm: hidden_size: got "4096", needs an integer of 1 or more'),
        ({"num_hidden_layers": 0}, "m: num_hidden_layers: got 0, needs an integer of 1 or more"),
        ({"num_hidden_layers": True}, "m: num_hidden_layers: got true, needs an integer of 1 or more"),
        ({"rms_norm_eps": -1}, "m: rms_norm_eps: got -1, needs a number above 0"),
        ({"num_attention_heads": 33, "num_key_value_heads": 11}, "m: num_attention_heads: got 33, with hidden_size"),
        ({"num_key_value_heads": 5}, "m: num_key_value_heads: got 5, with num_attention_heads 32, needs a divisor of"),
        ({"hidden_act": "relu"}, 'm: hidden_act: got "relu", needs "silu"; the gate of the MLP is SiLU'),
        ({"mlp_bias": True}, "m: mlp_bias: got true, needs false; no bundled model has a bias there"),
        ({"tie_word_embeddings": 1}, "m: tie_word_embeddings: got 1, needs true or false"),
    ],
)  # fmt: skip
def test_a_wrong_value_gets_a_sentence(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        architecture_of(config("llama3-8b", **changes), "m")
    assert str(caught.value).startswith(text)


def test_a_key_that_no_builder_knows_is_refused_by_name() -> None:
    with pytest.raises(BenchmarkError) as caught:
        architecture_of(config("llama3-8b", q_lora_rank=1536, intermediate_sizes=3), "m")
    assert str(caught.value).startswith(
        "m: intermediate_sizes, q_lora_rank: got keys that no builder knows, needs keys that kb knows: attention_bias, "
    )
    assert str(caught.value).endswith("; did you mean 'intermediate_size'?")


def test_a_window_of_keys_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="sliding_window: got 4096, needs null; attention to a window"):
        architecture_of(config("mixtral-8x7b", sliding_window=4096), "m")
    with pytest.raises(BenchmarkError, match="use_sliding_window: got true, needs false"):
        architecture_of(config("qwen2.5-7b", use_sliding_window=True), "m")


def test_tied_words_count_once() -> None:
    tied = architecture_of(config("llama3-8b", tie_word_embeddings=True), "m")
    assert tied.parameters == PUBLISHED["llama3-8b"] - 128256 * 4096


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("llama", "kb_models:Builder", "kb.models: got kb_models:Builder, beside kb_models.models.llama"),
        (
            "own",
            "kb_models:Builder",
            "got kb_models:Builder, which is none, needs a subclass of kb_models.Architecture",
        ),
        ("own", "kb_models.nowhere:Own", "got No module named 'kb_models.nowhere', needs an architecture that loads"),
    ],
)
def test_an_entry_point_that_is_no_use_is_refused(
    name: str, value: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint(name, value, group)])
    with pytest.raises(BenchmarkError, match=text):
        registry.architectures()


def frequencies(**changes: Any) -> Any:
    """The frequencies of Llama-3.1-405B, with heads of 128, with *changes* of its scaling."""
    whole = config("llama3-405b")
    model = architecture_of(whole | {"rope_scaling": whole["rope_scaling"] | changes}, "m")
    return model.rotation.frequencies(128)  # type: ignore[attr-defined]


def test_a_long_context_turns_long_waves_slower() -> None:
    """Waves up to 8192 / 4 positions keep their angles, waves above 8192 have an eighth of them."""
    plain = 500000.0 ** (-2 * np.arange(64) / 128)
    waves = 2 * np.pi / plain
    found = frequencies()
    np.testing.assert_allclose(found[waves < 2048], plain[waves < 2048], rtol=1e-14)
    np.testing.assert_allclose(found[waves > 8192], plain[waves > 8192] / 8, rtol=1e-14)
    between = (waves > 2048) & (waves < 8192)
    assert between.any()
    assert (found[between] < plain[between]).all()
    assert (found[between] > plain[between] / 8).all()


def test_linear_scaling_divides_all_angles() -> None:
    model = architecture_of(config("llama3-8b", rope_scaling={"type": "linear", "factor": 4.0}), "m")
    plain = architecture_of(config("llama3-8b"), "m")
    of_both = [each.rotation.frequencies(128) for each in (model, plain)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(of_both[0] * 4, of_both[1])


def test_scaling_that_is_not_built_is_refused() -> None:
    with pytest.raises(BenchmarkError, match='rope_scaling: rope_type: got "yarn", needs one of default, linear, llam'):
        architecture_of(config("llama3-8b", rope_scaling={"rope_type": "yarn", "factor": 4.0}), "m")
    with pytest.raises(BenchmarkError, match="rope_scaling: fact: got keys that no builder knows"):
        frequencies(fact=4)
    with pytest.raises(BenchmarkError, match=r"low_freq_factor: got 4\.0, needs less than"):
        frequencies(low_freq_factor=4)


def test_angles_have_a_default() -> None:
    """Source: the default of Hugging Face's LlamaConfig."""
    model = architecture_of(config("llama3-8b", rope_theta=..., rope_scaling=...), "m")
    assert model.rotation.theta == 10000.0  # type: ignore[attr-defined]
