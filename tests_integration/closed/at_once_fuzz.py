"""Random products on PEs of one SIP, launched in turns: without messages and event by event they come to the same.

python tests_integration/closed/at_once_fuzz.py 100             # seeds 0 to 99
python tests_integration/closed/at_once_fuzz.py 100 --first N   # seeds N to N + 99
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from closed_cases import (
    N_SETS,
    SIDE,
    Step,
    _add_packets_and_port,
    _alone,
    _chip,
    _pending,
    _step,
    counts_of,
    kernel,
)

from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host
from kb_engine.launch.launch_at_once import LaunchAtOnce
from kb_messages import KbError
from kb_topology import loads_topology


class AtOnceCase(NamedTuple):
    """A chip, the PEs, and the launches: on which set of tensors, the steps of the programs, and whether the host
    writes before. `logs` says whether there is an op log."""

    spec: dict[str, Any]
    pes: list[int]
    launches: list[tuple[int, list[list[Step]], bool]]
    logs: bool


def draw(seed: int) -> AtOnceCase:
    """The case of *seed*."""
    rng = random.Random(f"{seed} at once")
    spec = _chip(rng, "one_sip")
    if rng.random() < 0.3:
        _add_packets_and_port(random.Random(f"{seed} network"), spec)
    n_pes = rng.choice((4, 8, 8, 12, 16))
    pes = rng.sample(range(128), n_pes) if rng.random() < 0.5 else list(range(n_pes))
    steps = [_alone(_step(rng, 0)) for _ in range(rng.randint(2, 4))]
    is_uneven, launches = rng.random() < 0.2, []
    for _ in range(rng.randint(3, 7)):
        programs = [[rng.choice(steps)]] * n_pes
        if is_uneven and rng.random() < 0.5:
            programs = [*programs[1:], [rng.choice(steps)]]
        launches.append((rng.randrange(N_SETS), programs, rng.random() < 0.1))
    return AtOnceCase(spec, pes, launches, rng.random() < 0.6)


def run(case: AtOnceCase, exact: Any) -> Any:
    """What *case* leaves behind, or the sentence of its refusal."""
    topology = loads_topology(yaml.safe_dump(case.spec, sort_keys=False), "random.yaml")
    engine = Engine(topology, MemoryLogWriter() if case.logs else None, exact=exact, least_closed_stages=1)
    host, zeros = Host(engine, Path(__file__).parent), np.zeros((SIDE, SIDE), np.float16)
    sets = [
        [[host.tensor(name, zeros, DType.F16, slices=[host.hbm_slice_of(pe)]) for name in "abc"] for pe in case.pes]
        for _ in range(N_SETS)
    ]
    results = []
    try:
        for number, programs, writes in case.launches:
            if writes:
                host.write(sets[number][0][1], zeros)
            results.append(host.launch(kernel, sets[number], programs, pes=case.pes))
    except KbError as error:
        return str(error)
    log = engine.close_log()
    return None if log is None else str(log.digest), counts_of(engine), results, _pending(engine, sets)


def main() -> int:
    """Compare the cases, and say which differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=100, help="how many cases (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    options = parser.parse_args()
    n_at_once, end = 0, LaunchAtOnce._end_together

    def counted(launch: LaunchAtOnce, answered: Any) -> None:
        nonlocal n_at_once
        n_at_once += 1
        end(launch, answered)

    LaunchAtOnce._end_together = counted  # type: ignore[method-assign,assignment]  # counts those that end so
    failed = 0
    for seed in range(options.first, options.first + options.count):
        case = draw(seed)
        if run(case, "events") != run(case, "check" if seed % 5 == 0 else "closed"):
            failed += 1
            print(f"seed {seed} differs", flush=True)
    print(f"{options.count} cases, {failed} differ; {n_at_once} launches sent no messages")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
