"""ConfigKeys: the content of a Hugging Face `config.json`, whose keys a builder reads one by one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from kb_messages import BenchmarkError
from kb_topology import did_you_mean, listing

HARMLESS: Final = frozenset({
    "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "architectures", "attention_dropout",
    "attention_probs_dropout_prob", "attn_pdrop", "bos_token_id", "chunk_size_feed_forward", "classifier_dropout",
    "dtype", "embd_pdrop", "eos_token_id", "finetuning_task", "gradient_checkpointing", "hidden_dropout_prob",
    "initializer_factor", "initializer_range", "label2id", "layerdrop", "model_type", "output_attentions",
    "output_hidden_states", "output_router_logits", "pad_token_id", "pretraining_tp", "problem_type", "resid_pdrop",
    "return_dict", "router_aux_loss_coef", "router_jitter_noise", "summary_activation", "summary_first_dropout",
    "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params", "torch_dtype",
    "transformers_version", "unsloth_version", "use_cache",
})  # fmt: skip
"""Keys that change no time of an inference: names, numbers of special tokens, what training alone does, the dtype on
the disk."""


class ConfigKeys:
    """The keys of a `config.json`. Each look is noted, so that `refuse_unread` finds the keys that no builder knows."""

    def __init__(self, given: Mapping[str, Any], name: str) -> None:
        """*name* names the model or the file in errors."""
        self._given = given
        self._known: set[str] = set(HARMLESS)
        self.name = name

    def get(self, key: str, default: object = None) -> Any:
        """The value of *key* as it stands in the file; *default* where the key is missing or null."""
        self._known.add(key)
        found = self._given.get(key)
        return default if found is None else found

    def size(self, key: str, default: int | None = None, least: int = 1) -> int:
        """The integer of *key*, which has to be *least* or more.

        Raises BenchmarkError for another value, and for a key that is missing where there is no *default*.
        """
        found = self._required(key, default, "an integer")
        if isinstance(found, bool) or not isinstance(found, int) or found < least:
            raise self.error(key, _as_json(found), f"an integer of {least} or more")
        return found

    def number(self, key: str, default: float | None = None) -> float:
        """The positive number of *key*. Raises the errors of `size`."""
        found = self._required(key, default, "a number")
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < float("inf"):
            raise self.error(key, _as_json(found), "a number above 0")
        return float(found)

    def flag(self, key: str, default: bool) -> bool:
        """The truth value of *key*. Raises BenchmarkError for a value of another type."""
        found = self.get(key, default)
        if not isinstance(found, bool):
            raise self.error(key, _as_json(found), "true or false")
        return found

    def choice(self, key: str, values: Collection[str], default: str | None = None) -> str:
        """The text of *key*, one of *values*. Raises the errors of `size`."""
        found = self._required(key, default, f"one of {listing(values)}")
        if not isinstance(found, str) or found not in values:
            raise self.error(key, _as_json(found), f"one of {listing(values)}", did_you_mean(str(found), values))
        return found

    def only(self, key: str, values: Collection[object], why: str) -> None:
        """Refuses a value of *key* that is none of *values*; a key that is missing or null is fine. *why* ends the
        sentence: what no builder does.
        """
        found = self.get(key)
        if found is not None and found not in values:
            raise self.error(key, _as_json(found), " or ".join(map(_as_json, values)) or "null", why)

    def divides(self, key: str, whole: str) -> None:
        """Refuses a size of *key* that does not divide the size of *whole*."""
        part, total = self.size(key), self.size(whole)
        if total % part:
            raise self.error(key, f"{part}, with {whole} {total}", f"a divisor of {total}")

    def refuse_unread(self) -> None:
        """Raises BenchmarkError for a key that nobody asked for, which names the keys that are known."""
        unknown = sorted(set(self._given) - self._known)
        if unknown:
            read = sorted(self._known - HARMLESS)
            near = did_you_mean(unknown[0], read)
            fix = near or "leave the key out if it does not change what the model computes"
            needs = f"keys that kb knows: {', '.join(read)}, or one of {len(HARMLESS)} that change no time"
            raise self.error(", ".join(unknown), "keys that no builder knows", needs, fix)

    def error(self, key: str, got: str, needs: str, fix: str = "") -> BenchmarkError:
        """The error for a wrong value of *key*. The caller raises the error."""
        return BenchmarkError(f"{self.name}: {key}", got, needs, fix)

    def _required(self, key: str, default: object, needs: str) -> Any:
        found = self.get(key, default)
        if found is None:
            raise self.error(key, "no value", needs)
        return found


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
