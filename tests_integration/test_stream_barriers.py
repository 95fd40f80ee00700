"""Launches of streams whose programs wait for each other share PEs, in one SIP and in several, and none is stuck."""

from itertools import pairwise

import pytest

from kb_cli.benchmark import bundled
from kb_engine import Engine, Host, Language
from kb_topology import load_topology


def meets(tl: Language) -> None:
    tl.barrier()
    tl.barrier()


@pytest.mark.parametrize(
    ("name", "sets"),
    [("one_sip", [[0, 5, 8, 127], [127, 8, 0]]), ("four_sip", [[0, 128, 256], [130, 128, 0], [384, 256, 128]])],
)
def test_no_launch_holds_a_pe_that_an_earlier_one_waits_for(name: str, sets: list[list[int]]) -> None:
    host = Host(Engine(load_topology(bundled.find("topologies", name))))
    streams = [host.stream() for _ in sets]
    pending = [
        host.launch(meets, pes=pes, stream=each) for _ in range(3) for pes, each in zip(sets, streams, strict=True)
    ]
    spans: dict[str, list[tuple[int, int]]] = {}
    for each in [each.result() for each in pending]:
        for pe, start in each.pe_start_ps.items():
            spans.setdefault(pe, []).append((start, each.pe_end_ps[pe]))
    for mine in spans.values():
        assert all(one[1] <= two[0] for one, two in pairwise(sorted(mine)))
