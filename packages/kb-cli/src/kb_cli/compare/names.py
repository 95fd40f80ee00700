"""Blocks in sentences: HBM, GEMM, links."""

from __future__ import annotations

LINKS_NAME = "the links"


def block_name(block: str) -> str:
    """The kind *block* as a word: `pe_gemm` is GEMM, and `links` are the links."""
    if block in ("link", "links"):
        return LINKS_NAME
    if block in ("program", "host"):
        return f"the {block}"
    return block.removeprefix("pe_").removesuffix("_read").removesuffix("_write").replace("_", " ").upper()
