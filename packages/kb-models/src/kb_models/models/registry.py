"""The architectures by `model_type`: bundled ones, and those of other packages by the entry point `kb.models`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from kb_messages import BenchmarkError
from kb_models.models.architecture import Architecture
from kb_models.models.bert import Bert
from kb_models.models.config import ConfigKeys
from kb_models.models.gpt2 import Gpt2
from kb_models.models.llama import Llama, Mistral, Mixtral, Qwen2
from kb_models.models.resnet import ResNet
from kb_models.models.vit import ViT
from kb_topology import did_you_mean, listing

GROUP: Final = "kb.models"
"""The entry points of other packages: the name is a `model_type`, the object a subclass of `Architecture`."""

ARCHITECTURES: Final[Mapping[str, type[Architecture]]] = {
    "bert": Bert,
    "gpt2": Gpt2,
    "llama": Llama,
    "mistral": Mistral,
    "mixtral": Mixtral,
    "qwen2": Qwen2,
    "resnet": ResNet,
    "vit": ViT,
}
"""The architectures of kb-models."""


def architectures() -> dict[str, type[Architecture]]:
    """All architectures that are installed, by `model_type`.

    Raises BenchmarkError for an entry point that does not load, one that is no architecture, and one whose name is
    taken.
    """
    found = dict(ARCHITECTURES)
    for each in entry_points(group=GROUP):
        where = f"entry point {each.name} of {GROUP}"
        if each.name in found:
            raise BenchmarkError(where, f"{each.value}, beside {found[each.name].__module__}", "a name of its own")
        try:
            loaded = each.load()
        except Exception as error:  # a package of others may raise anything
            raise BenchmarkError(where, f"{error}", "an architecture that loads") from error
        if not (isinstance(loaded, type) and issubclass(loaded, Architecture)):
            raise BenchmarkError(where, f"{each.value}, which is none", "a subclass of kb_models.Architecture")
        found[each.name] = loaded
    return found


def architecture_of(config: Mapping[str, Any], name: str) -> Architecture:
    """The model of *config*, the content of a `config.json`. *name* names the model or the file in errors.

    Raises BenchmarkError for an unknown `model_type`, for a key that is missing or has a wrong value, and for a key
    that the architecture does not know.
    """
    keys, known = ConfigKeys(config, name), architectures()
    model_type = config.get("model_type")
    if model_type not in known:
        got = "no value" if model_type is None else f"{model_type!r}, which no builder knows"
        fix = did_you_mean(str(model_type), known) or f"another package adds one by the entry point {GROUP}"
        raise keys.error("model_type", got, f"one of {listing(sorted(known))}", fix)
    found = known[model_type](keys)
    keys.refuse_unread()
    return found
