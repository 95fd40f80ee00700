"""The number of classes of a classifier, from a configuration."""

from __future__ import annotations

from typing import Final

from kb_models.models.config import ConfigKeys

_DEFAULT: Final = 2
"""Classes where a configuration names none. Source: the default of Hugging Face's PretrainedConfig."""


def labels_of(keys: ConfigKeys) -> int:
    """The classes of `num_labels`, or as many as `id2label` names. Raises BenchmarkError for anything but a table."""
    named = keys.get("id2label")
    if named is None:
        return keys.size("num_labels", _DEFAULT)
    if not isinstance(named, dict) or not named:
        raise keys.error("id2label", f"{named!r:.40}", "the name of each class by its number")
    return keys.size("num_labels", len(named))
