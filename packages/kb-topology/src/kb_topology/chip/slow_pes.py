"""Slow PEs: the key `slow` of a file, which names PEs whose blocks take a factor longer than those of the other PEs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import UnsetType

from kb_messages import TopologyError
from kb_topology.chip.endpoints import Fail, expand_parts
from kb_topology.chip.graph import Graph
from kb_topology.chip.spec import TopologySpec
from kb_topology.chip.templates import levels
from kb_topology.text.checked import UnknownKeyError
from kb_topology.text.sentences import cut, listing
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import YamlPath, format_path

SLOW: Final = "slow"
"""The key of a file that has the factors of slow PEs."""
_AROUND_A_PE: Final = ("sip", "cube")
_STEP_OF_AN_ID: Final = re.compile(r"^(sip|cube|pe)(\d{1,9})$")


def slow_pes(spec: TopologySpec, graph: Graph, source: YamlSource) -> dict[str, float]:
    """The factor of each slow PE of *graph* by its id, in the order of the PEs. PEs of factor 1 are left out.

    Raises UnknownKeyError, at its place in *source*, for a key of `slow` that names no PE of the chip, and
    TopologyError for a PE that two keys name.
    """
    if isinstance(spec.slow, UnsetType):
        return {}
    places: dict[str, YamlPath] = {}
    factors: dict[str, float] = {}
    for key, factor in spec.slow.items():
        path = SLOW, key
        for pe_id in pes_of(key, spec, graph, partial(source.error, path)):
            if pe_id in places:
                got = f"a second factor for {pe_id}, which {format_path(places[pe_id])} names too"
                raise source.error(path, got, "one factor for each PE", "name the PE in one key")
            places[pe_id], factors[pe_id] = path, factor
    return {pe_id: factors[pe_id] for pe_id in graph.pe_ids if factors.get(pe_id, 1) != 1}


def slow_text(slow: Mapping[str, float]) -> str:
    """Each of the *slow* PEs with its factor, and the number of those beyond eight: `sip0.cube0.pe3 by 2`."""
    return listing((f"{pe_id} by {factor:g}" for pe_id, factor in slow.items()), 8)


def pes_of(key: str, spec: TopologySpec, graph: Graph, fail: Fail) -> tuple[str, ...]:
    """The ids of the PEs that *key* of `slow` names. `sip0.` and `cube0.` in front may be left out.

    Raises UnknownKeyError, with the words of *fail*, where *key* names no PEs of the chip.
    """
    if not graph.pe_ids:
        raise UnknownKeyError(*fail("a slow PE on a chip without PEs", "pe_layout and pe_template").args)

    def no_pe(got: str, needs: str, fix: str = "") -> TopologyError:
        first, last = graph.pe_ids[0], graph.pe_ids[-1]
        needs = f"the PE {first}" if first == last else f"PEs from {first} to {last}"
        return UnknownKeyError(*fail(cut(repr(key)), needs, "write one like pe0 or sip[*].cube[0].pe[*]").args)

    words = [_STEP_OF_AN_ID.sub(r"\1[\2]", word) for word in key.split(".")]
    left_out = _AROUND_A_PE[: max(0, len(_AROUND_A_PE) + 1 - len(words))]
    if [*left_out, *(word.partition("[")[0] for word in words)] != [*_AROUND_A_PE, "pe"]:
        raise no_pe(key, "")
    return expand_parts(".".join((*(f"{part}[0]" for part in left_out), *words)), levels(spec), no_pe)
