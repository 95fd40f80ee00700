import pytest


@pytest.fixture
def toy(toy_chip, monkeypatch, toy_points):
    """The toy chip; a probe builds its engine with the blocks that are installed, so the toys have to be."""
    monkeypatch.setattr("kb_engine.engine.registry.entry_points", lambda group: toy_points)
    return toy_chip
