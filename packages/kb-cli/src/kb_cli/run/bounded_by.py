"""The sentence that names what bounds a run: a busy block, or latency and its longest wait."""

from __future__ import annotations

from collections.abc import Mapping

from kb_cli.run.metrics import Use
from kb_cli.run.usage import LINK
from kb_cli.terminal.units import percent

BUSY = 0.6
"""A block that is busy for a smaller share of the time does not bound a run: something else keeps it waiting."""
NEAR = 0.1
"""When a DMA channel's utilization is this close to that of a memory or link, the channel waits for the memory or
link."""
EVEN = 0.05
"""Blocks are evenly busy when the busiest is at most this far above their mean."""

_PLURAL = {
    "pe_gemm": "the GEMM arrays",
    "pe_math": "the math units",
    "pe_dma_read": "the DMA read channels",
    "pe_dma_write": "the DMA write channels",
    "pe_fetch_store": "the TCM ports",
    "hbm": "the HBM slices",
    "sram": "the SRAMs",
    LINK: "the links",
}
_SINGULAR = {"hbm": "HBM slice", "sram": "SRAM", LINK: "link"}
_CHANNELS = ("pe_dma_read", "pe_dma_write")

WAITS = {
    "channel": "a block that serves another tile",
    "tcm_port": "the TCM port",
    "register_file": "room in the register file",
    "compute_slot": "a compute slot",
    "operand": "an operand",
    "barrier": "a barrier",
    "queue_full": "room in the next queue",
}
"""Words for the reasons of waits in the log."""


def bounded_by(uses: Mapping[str, Use], waits_ps: Mapping[str, int] | None) -> str:
    """One sentence, from *uses* by kind of block (`pe_gemm`, `hbm`, `link`, ...) and *waits_ps* by reason.

    *waits_ps* is None for a run without a log.
    """
    if not uses:
        return "Nothing was measured."
    ranked = sorted(uses, key=lambda kind: (-round(uses[kind].busiest, 2), kind == LINK, -uses[kind].mean))
    top = ranked[0]
    waiting = ""
    if top in _CHANNELS:
        cause = _cause(top, uses, ranked)
        if cause:
            waiting, top = top, cause
    if uses[top].busiest < BUSY:
        return _latency_bound(uses[top], top, waits_ps)
    others = [kind for kind in ranked if kind not in (top, waiting) and not _same_bytes(kind, top)]
    parts = [f"Bound by {_name(top, uses[top])}: {_busy(top, uses[top])}"]
    if waiting:
        it = "them" if _is_even(uses[top]) else "it"
        parts.append(
            f"{_PLURAL[waiting]} in front of {it} are held {percent(uses[waiting].mean)} of the time on average"
        )
    if others and uses[others[0]].busiest > 0:
        parts.append(f"{_which(others[0], uses[others[0]])} is next at {percent(uses[others[0]].busiest)}")
    return "; ".join(parts) + "."


def _cause(channel: str, uses: Mapping[str, Use], ranked: list[str]) -> str | None:
    """The memory or link that the DMA *channel* waits for: one that is about as busy as the channel."""
    near = uses[channel].busiest - NEAR
    return next((kind for kind in ranked if kind in _SINGULAR and uses[kind].busiest >= max(near, BUSY)), None)


def _same_bytes(kind: str, top: str) -> bool:
    """Whether both kinds are memories or links. Those carry the same bytes, so naming the second says nothing new."""
    return kind in _SINGULAR and top in _SINGULAR


def _name(kind: str, use: Use) -> str:
    one = kind in _SINGULAR and not _is_even(use)
    return f"{_SINGULAR[kind]} {use.node}" if one else _PLURAL.get(kind, f"the {kind} blocks")


def _which(kind: str, use: Use) -> str:
    return (
        f"{_SINGULAR.get(kind, 'block')} {use.node}"
        if kind not in _CHANNELS
        else f"the {_PLURAL[kind][4:-1]} of {use.node}"
    )


def _busy(kind: str, use: Use) -> str:
    if use.count == 1:
        return f"busy {percent(use.busiest)} of the time"
    if kind in _SINGULAR and not _is_even(use):
        return f"busy {percent(use.busiest)} of the time ({percent(use.mean)} on average over {use.count})"
    if _is_even(use):
        return f"busy {percent(use.mean)} of the time on average"
    return f"{use.node} busy {percent(use.busiest)} of the time ({percent(use.mean)} on average over {use.count})"


def _is_even(use: Use) -> bool:
    """Whether all blocks of a kind are about equally busy, so that naming the busiest says nothing."""
    return use.count > 1 and use.busiest - use.mean < EVEN


def _latency_bound(use: Use, kind: str, waits_ps: Mapping[str, int] | None) -> str:
    most = f"{_which(kind, use)} most, at {percent(use.busiest)}"
    text = f"Bound by latency: no block is busy {percent(BUSY)} of the time, {most}"
    total = sum(waits_ps.values()) if waits_ps else 0
    if not waits_ps or not total:
        return f"{text}."
    reason = max(waits_ps, key=lambda each: waits_ps[each])
    share = percent(waits_ps[reason] / total)
    return f"{text}; tiles waited longest for {WAITS.get(reason, reason)} ({share} of all waits)."
