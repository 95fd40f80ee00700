"""The roofs of a run: for each kind of part of the chip, the least time that the work of the run takes.

Each part serves one thing at a time, at its full rate at best, so the time of its work is at most the time of the run.
All times are exact until they are rounded down at the end.

Design: docs/design/attribution.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final, NamedTuple

from kb_cli.run.base.result import ARRAYS, COMPUTE, Roof, Roofline, Unwritten
from kb_cli.run.observe.block_work import form_of
from kb_cli.run.observe.kernel_time import kernel_ps
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.usage import LINK, PORT, PartBytes, Usage, names_of_ports, served_in_turn
from kb_cli.terminal.units import PS_PER_NS
from kb_engine import Engine, LaunchResult
from kb_engine.block import ComponentBase, Initiator, StageServer
from kb_messages import StageType, TransferParams
from kb_topology import YamlPath, exact

_PORT_OF_TCM: Final = "reg"
_NO_TIME: Final = Fraction(0)
_TCM_STAGES: Final = StageType.FETCH, StageType.STORE


class _Part(NamedTuple):
    """One part of the chip: the least time of its work, None where no full rate is known, and the time that it had.

    `rate` is its full rate where work can move from part to part, else None: in bytes a picosecond if `is_bytes`, and
    the same for equal blocks of PEs that are equally fast.
    """

    kind: str
    node: str
    least_ps: Fraction | None
    most_ps: int
    rate: Fraction | None
    is_bytes: bool = False


def roofs_of(engine: Engine, launches: Sequence[LaunchResult], plans: PlanTally, usage: Usage) -> list[Roof]:
    """Returns the roofs of *launches*, the highest first, and then the blocks whose full rate is not known."""
    span_ps = kernel_ps(launches)
    parts = [
        *_memories(launches, usage, span_ps),
        *_links(engine, usage, span_ps),
        *_ports(engine, usage, span_ps),
        *_blocks(engine, plans, usage),
    ]
    by_kind: dict[str, list[_Part]] = {}
    for part in parts:
        by_kind.setdefault(part.kind, []).append(part)
    impl_of = {node.id: node.impl for node in engine.topology.graph.nodes.values()}
    found = [*map(_roof, by_kind.values()), *_without(parts, impl_of)]
    return sorted(
        (each for each in found if each is not None), key=lambda each: (each.least_ps is None, -(each.least_ps or 0))
    )


def _roof(parts: Sequence[_Part]) -> Roof | None:
    """The roof of all *parts* of one kind whose full rate is known; None where they did no work."""
    known = [each for each in parts if _is_known(each)]
    top = max(known, key=lambda each: each.least_ps or 0, default=None)
    if top is None or not top.least_ps:
        return None
    rates = [each.rate for each in known if each.rate is not None]
    rate = sum(rates, _NO_TIME) if len(rates) == len(parts) else None
    work = sum((each.least_ps * each.rate for each in known if each.least_ps and each.rate), _NO_TIME)
    return Roof(
        kind=top.kind,
        count=len(parts),
        node=top.node,
        least_ps=floor(top.least_ps),
        even_ps=floor(work / rate) if rate else None,
        gbs=float(rate * PS_PER_NS) if rate and top.is_bytes else None,
    )


def _is_known(part: _Part) -> bool:
    return part.least_ps is not None and (not part.least_ps or floor(part.least_ps) <= part.most_ps)


def _without(parts: Iterable[_Part], impl_of: dict[str, str]) -> Iterator[Roof]:
    """A roof without time for each implementation whose blocks worked, and know no full rate or have beaten theirs."""
    others: dict[tuple[str, bool], list[_Part]] = {}
    for each in parts:
        if each.most_ps and not _is_known(each):
            impl = impl_of.get(each.node.partition(",")[0], each.kind)
            others.setdefault((impl, each.least_ps is not None), []).append(each)
    for (impl, is_beaten), mine in others.items():
        busiest = max(mine, key=lambda each: each.most_ps)
        yield Roof(kind=impl, count=len(mine), node=busiest.node, least_ps=None, is_beaten=is_beaten)


def _memories(launches: Sequence[LaunchResult], usage: Usage, span_ps: int) -> Iterator[_Part]:
    """The parts of memories: the time of the bytes that they moved while kernels ran."""
    for part in usage.memory_parts:
        node = part.node if part.n_parts == 1 else f"{part.node}, part {part.number} of {part.n_parts}"
        kind, nbytes = usage.kind_of(part), part.read_nbytes + part.written_nbytes
        if part.ps_each is None:
            yield _Part(kind, node, None, span_ps if nbytes else 0, None, True)
            continue
        least_ps = nbytes * part.ps_each + _carried_ps(part, launches)
        yield _Part(kind, node, max(_NO_TIME, least_ps), span_ps, 1 / part.ps_each, True)


def _carried_ps(part: PartBytes, launches: Sequence[LaunchResult]) -> int:
    """Picoseconds of work that came before a launch and was done in it, less the work of a launch that was done later.

    Such work is nothing that a request waits for: lines that a cache writes back.
    """
    return sum(
        max(0, before_ps - launches[number].start_ps) - max(0, after_ps - launches[number].end_ps)
        for number, before_ps, after_ps in part.frees_ps
    )


def _links(engine: Engine, usage: Usage, span_ps: int) -> Iterator[_Part]:
    """The links, each direction alone. Work cannot move from link to link: another way has other links."""
    for link in engine.fabric.links:
        if not usage.carries_bytes(link.link):
            continue
        name = f"{link.link.src} -> {link.link.dst}"
        _, nbytes = usage.counts.get((LINK, name), (0, 0))
        yield _Part(LINK, name, nbytes * link.rate.ps_each if nbytes else _NO_TIME, span_ps, None)


def _ports(engine: Engine, usage: Usage, span_ps: int) -> Iterator[_Part]:
    """The ports of blocks over all of their links."""
    for name, port in zip(names_of_ports(engine.chip), engine.fabric.ports, strict=True):
        _, nbytes = usage.counts.get((PORT, name), (0, 0))
        yield _Part(PORT, name, nbytes * port.rate.ps_each, span_ps, None)


def _blocks(engine: Engine, plans: PlanTally, usage: Usage) -> Iterator[_Part]:
    """The blocks of PEs: their least times, and their times in service.

    Blocks of one template are equal, but that those of a slow PE have a rate that is lower by the factor of the PE.
    """
    least, counts, topology = plans.least_ps, usage.counts, engine.topology
    kinds: dict[str, list[tuple[_Part, object]]] = {}
    forms: dict[YamlPath, object] = {}
    for component in engine.components.values():
        node = topology.graph.nodes[component.node_id]
        kind, form = node.kind.value, forms.setdefault(node.yaml_path, form_of(component))
        for channel, servers in served_in_turn(component):
            of_stages = [least.get((component.node_id, each.stage_type), _NO_TIME) for each in servers]
            known = [each for each in of_stages if each is not None]
            least_ps = sum(known, _NO_TIME) if len(known) == len(of_stages) else None
            rate, is_bytes = _rate_of(component, servers, topology.slow_factor(str(node.pe_id)))
            most_ps = counts.get((kind + channel, component.node_id), (0,))[0]
            name = _PORT_OF_TCM + channel if is_bytes else kind + channel
            part = _Part(name, component.node_id, least_ps, most_ps, rate, is_bytes)
            kinds.setdefault(name, []).append((part, form))
    for found in kinds.values():
        is_one_form = len({form for _, form in found}) == 1
        yield from (part if part.is_bytes or is_one_form else part._replace(rate=None) for part, _ in found)


def _rate_of(
    component: ComponentBase[Any], servers: Sequence[StageServer], factor: float
) -> tuple[Fraction | None, bool]:
    """The full rate of *servers* of *component*, and whether it is one of bytes: that of a TCM's port is.

    Other rates are work a picosecond: 1, or less by the *factor* of a slow PE.

    DMAs have none, because a transfer belongs to the PE of its kernel.
    """
    if all(each.stage_type in _TCM_STAGES for each in servers):
        least = component.least_ps(servers[0].stage_type, TransferParams(nbytes=1))
        return (1 / least if least else None), True
    return (None if isinstance(component, Initiator) else 1 / exact(factor)), False


def unwritten_of(launches: Sequence[LaunchResult], usage: Usage) -> Unwritten | None:
    """Returns the bytes that memories still have to write at the end of the last launch; None for none."""
    nbytes, most_ps = 0, 0
    for part in usage.memory_parts:
        if part.name or part.ps_each is None:
            continue
        left_ps = sum(max(0, after - launches[n].end_ps) for n, _, after in part.frees_ps if n == len(launches) - 1)
        mine = usage.unwritten_nbytes.get(part.node, 0) + floor(left_ps / part.ps_each)
        nbytes, most_ps = nbytes + mine, max(most_ps, ceil(mine * part.ps_each))
    return Unwritten(nbytes=nbytes, ps=most_ps) if nbytes else None


def roofline(roofs: Sequence[Roof], span_ps: int) -> Roofline | None:
    """Returns the roofline of a run that took *span_ps* and has *roofs*.

    Returns None for a run that took no time, and on a chip that states no limit.
    """
    placed = max(
        (each for each in roofs if each.least_ps is not None), key=_of(lambda each: each.least_ps), default=None
    )
    if not span_ps or placed is None or placed.least_ps is None:
        return None
    even = max((each for each in roofs if each.even_ps is not None), key=_of(lambda each: each.even_ps), default=None)
    memory = max((each for each in roofs if each.gbs is not None), key=_of(lambda each: each.even_ps), default=None)
    arrays = next((each for each in roofs if each.kind == ARRAYS), None)
    return Roofline(
        bound=COMPUTE if even is None else _bound(even),
        least_ns=0.0 if even is None else (even.even_ps or 0) / PS_PER_NS,
        memory=None if memory is None else memory.kind,
        memory_gbs=None if memory is None else memory.gbs,
        memory_share=None if memory is None else (memory.even_ps or 0) / span_ps,
        compute_share=None if arrays is None or arrays.even_ps is None else arrays.even_ps / span_ps,
        placed_ns=placed.least_ps / PS_PER_NS,
        placed_bound=_bound(placed),
    )


def _of(value: Callable[[Roof], int | None]) -> Callable[[Roof], int]:
    return lambda roof: value(roof) or 0


def _bound(roof: Roof) -> str:
    return COMPUTE if roof.kind == ARRAYS else roof.kind
