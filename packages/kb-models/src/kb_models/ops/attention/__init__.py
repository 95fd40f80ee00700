"""Attention: of whole sequences, and of new tokens to a cache, with rotary positions."""

from kb_models.ops.attention.decode import DecodeAttention as DecodeAttention
from kb_models.ops.attention.heads import Heads as Heads
from kb_models.ops.attention.kv_cache import KvCache as KvCache
from kb_models.ops.attention.prefill import PrefillAttention as PrefillAttention
from kb_models.ops.attention.rope import Rope as Rope
from kb_models.ops.attention.rope_append import RopeAppend as RopeAppend
