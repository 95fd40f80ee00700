"""The levers of a chip: the values in its file that are costs, and the change that makes each of them better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

import msgspec
from msgspec import Struct

from kb_cli.compare.blocks import block_name
from kb_cli.terminal.units import listed
from kb_cli.whatif.link_kinds import templates_of_links
from kb_engine.engine import Registry
from kb_messages import Lever, levers_of
from kb_topology import SLOW, Topology, YamlPath, exact

LINKS = "links"
_MOST_NAMED = 3
"""The most slow PEs that a lever names. Source: assumed."""


class ChipLever(Struct, frozen=True):
    """Field `field` of all blocks of one kind, or of the links of one kind (`block` is then `links`).

    A key of `slow` in the file is a lever, too (`block` is then `slow`, and `field` the key). `part` names the blocks,
    links or slow PEs in sentences. `values` has the file's values, by place.
    """

    block: str
    field: str
    lever: Lever
    values: Mapping[YamlPath, float]
    part: str = ""

    @property
    def better(self) -> dict[YamlPath, str]:
        """Twice or half each value, exactly, one more, or 1 for slow PEs, as texts for the file."""
        if self.block == SLOW:
            return dict.fromkeys(self.values, "1")
        if self.lever.better == "one more":
            return {path: f"{value + 1:.0f}" for path, value in self.values.items()}
        factor = Decimal(2) if self.lever.better == "twice" else Decimal("0.5")
        return {path: f"{(Decimal(str(value)) * factor).normalize():f}" for path, value in self.values.items()}

    @property
    def is_at_best(self) -> bool:
        """Whether the file has the better values already, as it has for a factor of 1."""
        return all(float(text) == self.values[path] for path, text in self.better.items())

    @property
    def change(self) -> str:
        """The better values in words, before the parts: `twice the clock`."""
        if self.block == SLOW:
            return "full speed"
        article = "" if self.lever.better == "one more" else "the "
        return f"{self.lever.better} {article}{self.lever.noun}"


class Moved(Struct, frozen=True):
    """A lever with other values: the time of its classes becomes at best `factor` times as long.

    `whole` says that no other value of the file affects these classes. `parts` are the kinds of links whose bandwidth
    has changed, by name.
    """

    lever: Lever
    factor: Fraction
    whole: bool = True
    parts: frozenset[str] = frozenset()


def chip_levers(topology: Topology) -> list[ChipLever]:
    """Returns every lever of *topology* whose value is not zero, in the order of the file's nodes, then the levers of
    links, then those of slow PEs.

    Raises TopologyError when a block is not installed, or does not take its attributes.
    """
    found: dict[tuple[str, str, str], tuple[Lever, dict[YamlPath, float]]] = {}
    for block, part, path, field, lever, value in (*_nodes(topology), *_links(topology), *_slow_pes(topology)):
        if value:
            found.setdefault((block, part, field), (lever, {}))[1][(*path, field)] = float(value)
    return [ChipLever(block, field, lever, values, part) for (block, part, field), (lever, values) in found.items()]


def moved(
    levers: Sequence[ChipLever], before: Mapping[YamlPath, float], after: Mapping[YamlPath, float]
) -> list[Moved]:
    """Returns the levers among the values *before* and *after* a change, by place. Each place must be one of a
    lever.

    Values of one field of one block or of links scale different work, of which the path does not say how much is whose.
    So they count as one lever, which has the factor of the value that changed for the better most.
    """
    pulled: dict[tuple[str, str], Moved] = {}
    for path, old in before.items():
        each = next(each for each in levers if path in each.values)
        ratio = exact(after[path]) / exact(old)
        factor = {"twice": 1 / ratio, "half": ratio, "one more": Fraction(ratio <= 1)}[each.lever.better]
        others = [place for other in levers if _share(each.lever, other.lever) for place in other.values]
        parts = frozenset({each.part} if each.block == LINKS else ())
        known = pulled.get((each.block, each.field), Moved(each.lever, factor))
        pulled[each.block, each.field] = Moved(
            each.lever, min(factor, known.factor), all(place in before for place in others), parts | known.parts
        )
    return list(pulled.values())


def _share(one: Lever, other: Lever) -> bool:
    """Whether two levers have a class in common. `hbm` stands for every class of that block. Places scale no class."""
    if "one more" in (one.better, other.better):
        return False
    return any(a == b or a.startswith(f"{b}:") or b.startswith(f"{a}:") for a in one.classes for b in other.classes)


def _nodes(topology: Topology) -> Iterator[tuple[str, str, YamlPath, str, Lever, float | None]]:
    registry = Registry()
    templates = {node.yaml_path: node for node in topology.graph.nodes.values()}
    for path, node in templates.items():
        block, spec = registry.spec(node, topology.source)
        values = msgspec.structs.asdict(spec)
        names = {field.encode_name: field.name for field in msgspec.structs.fields(spec)}
        for field, lever in levers_of(block.spec_type):
            yield node.kind.value, block_name(node.kind.value), path, field, lever, values[names[field]]


def _links(topology: Topology) -> Iterator[tuple[str, str, YamlPath, str, Lever, float | None]]:
    for path, template, kind in templates_of_links(topology):
        for field, lever in levers_of(type(template)):
            yield LINKS, kind.name, path, field, lever, getattr(template, field)


def _slow_pes(topology: Topology) -> Iterator[tuple[str, str, YamlPath, str, Lever, float | None]]:
    """Yields the keys of `slow`. All that blocks of PEs do on a path scales with a factor."""
    kinds = {node.kind.value for node in topology.graph.nodes.values() if node.pe is not None}
    classes = {
        each
        for kind, _, _, _, lever, value in _nodes(topology)
        if kind in kinds and value and lever.better != "one more"
        for each in lever.classes
    }
    lever = Lever((*sorted(kinds), *sorted(classes)), "half", "factor")
    for key, factor in (topology.spec.slow or {}).items():
        pes = topology.pes_of(key)
        part = listed(pes) if len(pes) <= _MOST_NAMED else f"{len(pes)} slow PEs"
        yield SLOW, part, (SLOW,), key, lever, factor
