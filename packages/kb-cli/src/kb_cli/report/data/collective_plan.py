"""The figures of `kb plan collective`: the time and the messages of each algorithm of a collective on a chip."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kb_engine import Engine, Host
from kb_engine.collectives import Sizes, algorithms_of
from kb_messages import DType


class AlgorithmPlan(Struct, frozen=True, kw_only=True):
    """An algorithm: its estimated time, and the number and bytes of all messages. `auto` takes it or not."""

    algorithm: str
    estimated_ps: int
    messages: int
    message_bytes: int
    auto: bool


class CollectivePlan(Struct, frozen=True, kw_only=True):
    """A collective of `elements` of `dtype` a rank on `ranks` PEs in `cubes` cubes; of all_gather, in the result."""

    topology: str
    collective: str
    ranks: int
    cubes: int
    elements: int
    dtype: str
    bytes: int
    op: str
    algorithms: list[AlgorithmPlan]


def plan_collective(
    engine: Engine, call: str, elements: int, dtype: DType, op: str, pes: Sequence[int] | None
) -> CollectivePlan:
    """The figures of *call* on *pes*, by default all PEs, with operands in memory near the PEs.

    The estimates take links and memories as free of others. Raises KernelError for missing PEs and for PEs without
    `pe_queue`.
    """
    group = Host(engine).group(pes)
    sizes = Sizes(elements, dtype, op)
    taken = group.chosen(call, sizes, (False, False))
    rows = []
    for algorithm in algorithms_of(call):
        found = group.estimate(call, algorithm, sizes)
        rows.append(
            AlgorithmPlan(
                algorithm=algorithm,
                estimated_ps=found.total_ps,
                messages=found.n_messages,
                message_bytes=found.nbytes,
                auto=algorithm == taken,
            )
        )
    return CollectivePlan(
        topology=engine.topology.name,
        collective=call,
        ranks=len(group),
        cubes=len(group.cubes),
        elements=elements,
        dtype=str(dtype),
        bytes=elements * dtype.nbytes,
        op=op,
        algorithms=rows,
    )
