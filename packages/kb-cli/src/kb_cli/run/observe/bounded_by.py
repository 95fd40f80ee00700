"""The sentence that says which block bounds a run, and at which kernel line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kb_cli.run.base.workload_result import OpResult, alike_ops, model_kernels_ps
from kb_cli.terminal.units import duration, percent
from kb_dataexec.analysis import PathShare

if TYPE_CHECKING:
    from kb_cli.run.observe.metrics import Use

_LEAST: Final = 0.0005
"""The smallest share that is named. A smaller one would be printed as 0.0 %."""
UNKNOWN: Final = "unknown"
"""The block of time for which a log has no cause."""


class _Cost(NamedTuple):
    """A cost as the subject of a sentence, and its verb."""

    subject: str
    verb: str


_NEXT: Final = {"is": "comes", "are": "come"}
_LAUNCH: Final = _Cost("launching the kernels", "is")
_MESSAGES: Final = _Cost("the launches' way over the links", "is")
_MEMORIES: Final = {"hbm": "HBM", "sram": "SRAM", "pe_tcm": "TCM", "tcm": "TCM"}
_COSTS: Final = {
    ("pe_gemm", "steps"): _Cost("the GEMM arrays' steps", "are"),
    ("pe_gemm", "fill_drain"): _Cost("filling and draining the GEMM arrays", "is"),
    ("pe_gemm", ""): _Cost("the GEMM arrays' work", "is"),
    ("pe_math", ""): _Cost("the math units' work", "is"),
    ("pe_fetch_store", "bytes"): _Cost("the TCM ports' bytes", "are"),
    ("pe_fetch_store", "latency"): _Cost("the TCM ports' latency", "is"),
    ("pe_fetch_store", "fetch"): _Cost("fetching from TCM", "is"),
    ("pe_fetch_store", "store"): _Cost("storing to TCM", "is"),
    ("pe_fetch_store", ""): _Cost("the TCM ports' work", "is"),
    ("pe_dma", "setup"): _Cost("setting up transfers", "is"),
    ("pe_dma", "lookup"): _Cost("translating addresses", "is"),
    ("pe_dma", ""): _Cost("the DMAs' transfers", "are"),
    ("links", "bytes"): _Cost("the links' bytes", "are"),
    ("links", "shared"): _Cost("sharing links", "is"),
    ("links", ""): _Cost("the way over the links", "is"),
    ("pe_cpu", "startup"): _Cost("starting the kernels", "is"),
    ("pe_cpu", "busy"): _Cost("launches of other streams on the same PEs", "are"),
    ("pe_cpu", ""): _Cost("issuing commands", "is"),
    ("pe_scheduler", ""): _Cost("scheduling commands", "is"),
    ("pe_queue", "doorbell"): _Cost("waking kernels by doorbells", "is"),
    ("pe_queue", "credit"): _Cost("sending credits of messages", "is"),
    ("program", ""): _Cost("the kernel's own steps", "are"),
    ("host", ""): _LAUNCH,
    ("io_cpu", ""): _LAUNCH,
    ("m_cpu", ""): _LAUNCH,
    (UNKNOWN, ""): _Cost("time without a recorded cause", "is"),
    **{(block, "bytes"): _Cost(f"{name}'s bytes", "are") for block, name in _MEMORIES.items()},
    **{(block, "latency"): _Cost(f"{name}'s latency", "is") for block, name in _MEMORIES.items()},
    **{(block, ""): _Cost(f"{name}'s work", "is") for block, name in _MEMORIES.items()},
}
"""Costs by block and activity; the activity "" stands for all other activities of the block."""
_KINDS: Final = {
    "pe_gemm": "the GEMM arrays were",
    "pe_math": "the math units were",
    "pe_dma_read": "the DMA read channels were",
    "pe_dma_write": "the DMA write channels were",
    "pe_fetch_store": "the TCM ports were",
    "hbm": "HBM was",
    "sram": "SRAM was",
    "link": "the links were",
}


def bounded_by(shares: Sequence[PathShare] | None, uses: Mapping[str, Use]) -> str:
    """Returns the sentence for *shares* of the critical path, the largest first; for *uses* by kind of block without
    a path.
    """
    if shares is None:
        return _without_path(uses)
    if not shares or not shares[0].ps:
        return "The run took no time."
    top, *rest = shares
    cost = _cost(top)
    text = f"{cost.subject} {cost.verb} {percent(top.share)} of the time{_of_line(top)}"
    after = next((each for each in rest if each.share >= _LEAST and _cost(each) != cost), None)
    if after is not None:
        text += f"; {_cost(after).subject} {_NEXT[_cost(after).verb]} next with {percent(after.share)}"
    return f"{text[0].upper()}{text[1:]}."


def workload_bounded_by(ops: Sequence[OpResult], of_run: str) -> str:
    """Returns the sentence on the costliest of *ops* in the whole model, and on its bound; *of_run* for no ops.

    An op costs its kernels, as often as the model has it.
    """
    total_ps = model_kernels_ps(ops)
    if not total_ps:
        return of_run
    top, *rest = alike_ops(ops)
    op, is_one = top.first, top.n_ops == 1
    times = f", {top.repeats} x {duration(op.latency_ps)}" if top.repeats > 1 else ""
    share = percent(top.model_ps / total_ps)
    text = f"{top.text} {'is' if is_one else 'are'} {share} of the kernels of the model{times}"
    if op.bound is not None:
        cost = _cost_of(op.bound.block, op.bound.what)
        text += f", and {cost.subject} {cost.verb} {percent(op.bound.share)} of {'its' if is_one else 'their'} time"
    if rest and (after := rest[0].model_ps / total_ps) >= _LEAST:
        text += f"; {rest[0].text} {'comes' if rest[0].n_ops == 1 else 'come'} next with {percent(after)}"
    return f"{text}."


def _cost(share: PathShare) -> _Cost:
    """Returns the cost of *share*."""
    return _MESSAGES if share.block == "links" and not share.line else _cost_of(share.block, share.what)


def _cost_of(block: str, what: str) -> _Cost:
    """Returns the cost of *what* of *block*. A block of another package has no sentence of its own, so its names are
    used.
    """
    return _COSTS.get((block, what)) or _COSTS.get((block, "")) or _Cost(f"{block}: {what}", "is")


def _of_line(share: PathShare) -> str:
    if not share.line:
        return ""
    if share.line_ps == share.ps:
        return f", all of {share.line}"
    if 2 * share.line_ps > share.ps:
        return f", mostly of {share.line}"
    return f", most at {share.line} ({percent(share.line_ps / share.ps)} of it)"


def _without_path(uses: Mapping[str, Use]) -> str:
    if not uses:
        return "Nothing was measured."
    kind = max(uses, key=lambda each: uses[each].mean)
    busy = f"{_KINDS.get(kind, f'the {kind} blocks were')} busiest, {percent(uses[kind].mean)} of the time on average"
    return f"{busy[0].upper()}{busy[1:]}; the cost of that is not recorded."
