"""The script that measures layers of a model has the products of the model, and its sides come to the same."""

from typing import Any

import pytest
from speed_scripts import speed_script

layers = speed_script("layers")


def test_the_products_have_the_weights_of_llama_3_70b() -> None:
    """Eighty layers and two tables of 128,256 tokens are 70.55 thousand million weights; norms are 0.001 of that."""
    weights = sum(product.n * product.k for product in layers.products(layers.LLAMA_3_70B))
    assert weights == 2 * 8192 * 8192 + 2 * 1024 * 8192 + 3 * 28672 * 8192
    assert 80 * weights + 2 * 128256 * 8192 == pytest.approx(70.55e9, rel=1e-3)


def test_a_product_repeats_another_one_of_its_sizes() -> None:
    layer = layers.products(layers.LLAMA_3_70B)
    new = [each.name for each, is_new in zip(layer, layers.of_new_sizes(layer), strict=True) if is_new]
    assert new == ["q", "k", "gate", "down"]


@pytest.mark.parametrize("tokens", [256, 7])
def test_a_layer_comes_to_the_same_by_every_event(tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "CHIP", "one_cube")
    monkeypatch.setattr(layers, "LLAMA_3_70B", layers.Model(256, 512, heads=4, kv_heads=1, head_dim=64))
    closed, events = (layers.simulate(tokens, True, exact, 2) for exact in ("isolated", "events"))
    assert (closed.end_ps, closed.stages) == (events.end_ps, events.stages)
    assert len(closed.layers_s) == 2


def test_many_layers_are_told_as_they_end(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(layers, "CHIP", "one_cube")
    monkeypatch.setattr(layers, "LLAMA_3_70B", layers.Model(256, 512, heads=4, kv_heads=1, head_dim=64))
    monkeypatch.setattr("sys.argv", ["layers.py", "--layers", "2", "--tokens", "32"])
    layers.main()
    first, second, whole = capsys.readouterr().out.splitlines()
    assert first.startswith("layer   1 of 2: ")
    assert second.startswith("layer   2 of 2: ")
    assert " stages, " in whole
