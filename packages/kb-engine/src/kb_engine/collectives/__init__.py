"""Collectives: sums, gathers and exchanges among the programs of a launch, by several algorithms.

Design: docs/design/messages.md
"""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_engine.collectives.algorithms import CALLS as CALLS
    from kb_engine.collectives.algorithms import algorithms_of as algorithms_of
    from kb_engine.collectives.algorithms import check_algorithm as check_algorithm
    from kb_engine.collectives.calls import all_gather as all_gather
    from kb_engine.collectives.calls import all_reduce as all_reduce
    from kb_engine.collectives.calls import all_to_all as all_to_all
    from kb_engine.collectives.calls import barrier as barrier
    from kb_engine.collectives.calls import broadcast as broadcast
    from kb_engine.collectives.calls import reduce_scatter as reduce_scatter
    from kb_engine.collectives.estimate import Estimate as Estimate
    from kb_engine.collectives.group import Group as Group
    from kb_engine.collectives.sizes import Sizes as Sizes

_NAMES = {
    "kb_engine.collectives.algorithms": ("CALLS", "algorithms_of", "check_algorithm"),
    "kb_engine.collectives.calls": (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "barrier",
        "broadcast",
        "reduce_scatter",
    ),
    "kb_engine.collectives.estimate": ("Estimate",),
    "kb_engine.collectives.group": ("Group",),
    "kb_engine.collectives.sizes": ("Sizes",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
