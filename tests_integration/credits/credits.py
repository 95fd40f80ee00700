"""Compares chips with buffers of a size with a simulation of flits, over random chips with random traffic.

python tests_integration/credits/credits.py 3000       # cases 0 to 2999, over all processors
python tests_integration/credits/credits.py --seed 17  # one case in full

Both have to agree to the picosecond, and on which cases end in a circle of full buffers.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "contention"))

from contention_engine import EngineRun
from credits_cases import Case, random_case
from credits_flits import Line, Message, Simulation

from kb_messages import SimulationStuckError


class Watched(NamedTuple):
    """What the engine did: the messages as they began, when each ended, and the error of a circle, if there was one."""

    lines: dict[str, Line]
    messages: list[Message]
    ends_ps: dict[int, int]
    circle: str


class Verdict(NamedTuple):
    """How a case came out. *failed* says why it failed, if it did."""

    seed: int
    messages: int
    packets: int
    has_circle: bool
    failed: str


def watched(case: Case) -> Watched:
    """Run *case* on the engine, and note what its fabric of packets gets and gives back."""
    run = EngineRun(case.topology, case.jobs, case.chip.outstanding)
    fabric: Any = run.engine.fabric
    lines, messages, ends_ps, numbers = dict[str, Line](), list[Message](), dict[int, int](), dict[int, int]()
    travel, deliver = fabric._travel, fabric._deliver
    kept = []

    def begin(transfer: Any) -> None:
        flow = transfer.flow
        if flow.nbytes and flow.hops:
            kept.append(transfer)
            numbers[id(transfer)] = len(messages)
            for hop in flow.hops:
                lines[name_of(hop)] = line_of(hop, case)
            names = tuple(map(name_of, flow.hops))
            messages.append(Message(names, flow.nbytes, sum(case.packet), transfer.head_ps, transfer.tail_ps))
        travel(transfer)

    def end(transfer: Any) -> None:
        if id(transfer) in numbers:
            ends_ps[numbers[id(transfer)]] = run.engine.clock.now
        deliver(transfer)

    fabric._travel, fabric._deliver = begin, end
    try:
        run.run()
    except SimulationStuckError as error:
        return Watched(lines, messages, ends_ps, str(error))
    return Watched(lines, messages, ends_ps, "")


def name_of(hop: Any) -> str:
    """The name of a link. A port is one of two links from a node to itself."""
    link = hop.state.link
    return f"{link.src} -> {link.dst}" + (f" {id(hop.state)}" if link.src == link.dst else "")


def line_of(hop: Any, case: Case) -> Line:
    link = hop.state.link
    buffers = case.buffers.get(link.dst.rpartition(".")[2])
    nbytes, credit_ps = (None, 0) if buffers is None else (buffers.nbytes, round(buffers.credit_ns * 1000))
    return Line(name_of(hop), Fraction(1000) / Fraction(link.bw_gbs), hop.after_ps, nbytes, credit_ps)


def judge(seed: int, flit_nbytes: int = 16) -> Verdict:
    """How case *seed* came out."""
    case = random_case(seed)
    try:
        found = watched(case)
        failed = difference(found, flit_nbytes)
    except Exception:  # noqa: BLE001
        return Verdict(seed, len(case.jobs), 0, False, traceback.format_exc(limit=-3))
    packets = sum(-(-each.nbytes // each.packet_nbytes) for each in found.messages)
    return Verdict(seed, len(found.messages), packets, bool(found.circle), failed)


def difference(found: Watched, flit_nbytes: int) -> str:
    """In what the engine and the flits differ; empty if they agree.

    The engine stops at a circle of full buffers, while the flits go on where they can. So the messages that ended
    before are compared, and all lines of the circle have to be stuck.
    """
    flits = Simulation(list(found.lines.values()), found.messages, flit_nbytes).run()
    for number, end_ps in found.ends_ps.items():
        if flits.ends_ps.get(number) != end_ps:
            return f"message {number} ends at {end_ps} ps, and its flits at {flits.ends_ps.get(number)}"
    if bool(found.circle) != bool(flits.stuck_lines):
        return f"{found.circle or 'no circle'}, and the flits are stuck at {sorted(flits.stuck_lines) or 'no line'}"
    if not found.circle and len(found.ends_ps) < len(found.messages):
        return f"{len(found.messages) - len(found.ends_ps)} messages have no end"
    named = [each for each in found.lines if each in found.circle]
    if found.circle and not (len(named) > 1 and set(named) <= flits.stuck_lines):
        return f"{found.circle}, and the flits are stuck at {sorted(flits.stuck_lines)}"
    return ""


def summary(verdicts: list[Verdict]) -> str:
    failed = [each for each in verdicts if each.failed]
    lines = [f"case {each.seed}: {each.failed}" for each in failed[:20]]
    circles = sum(each.has_circle for each in verdicts)
    messages, packets = sum(each.messages for each in verdicts), sum(each.packets for each in verdicts)
    lines.append(
        f"{len(verdicts)} cases, {messages} transfers in {packets} packets, {circles} circles; {len(failed)} disagree"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="?", type=int, default=3000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--flit-nbytes", type=int, default=16)
    asked = parser.parse_args()
    if asked.seed is not None:
        print(random_case(asked.seed).yaml, *random_case(asked.seed).jobs, sep="\n")
        print(summary([judge(asked.seed, asked.flit_nbytes)]))
        return 0
    began = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(partial(judge, flit_nbytes=asked.flit_nbytes), range(asked.cases), chunksize=20))
    print(summary(verdicts), f"{time.perf_counter() - began:.0f} s", sep="\n")
    return 1 if any(each.failed for each in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
