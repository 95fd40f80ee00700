"""Finds the model that a user names: a bundled configuration, or a file of one."""

from __future__ import annotations

import json
from pathlib import Path

_FOLDER = Path(__file__).parent
CONFIGS = _FOLDER / "configs"


def names() -> list[str]:
    """The names of the bundled models."""
    return sorted(path.stem for path in CONFIGS.glob("*.json"))


def source_of(text: str) -> tuple[Path, bytes] | None:
    """The benchmark file of the workload that *text* names, as a path for its errors and its source; None for others.

    The source holds the whole configuration, so a run folder repeats the run without the file that *text* names.
    """
    if text not in names():
        return None
    config = json.loads((CONFIGS / f"{text}.json").read_text(encoding="utf-8"))
    source = f'''"""The model {text} as a benchmark of kb-models."""

from kb_models import ModelWorkload


class Model(ModelWorkload):
    """{text}, from the sizes of its `config.json`."""

    name = {text!r}
    config = {config!r}
'''
    return _FOLDER / f"{text}.py", source.encode()


source_of.names = names  # type: ignore[attr-defined]
