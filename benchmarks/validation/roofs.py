"""Are roofs lower bounds? No latency is below a roof, on bundled and on random chips and kernels. See README.md.

    python benchmarks/validation/roofs.py                    # everything: many minutes; also `nox -s roofs`
    python benchmarks/validation/roofs.py --cases 200        # random chips and kernels alone
    python benchmarks/validation/roofs.py --bundled h100     # every bundled benchmark on some chips

Exit code 1: a run took less time than a roof of it, or a bundled block was faster than the rate that it states.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import random_chips
import random_kernels
import random_networks
from devices import BENCHMARKS, run_alone
from digests import SMALL
from law_of_runs import check

from kb_cli.run.observe.metrics import measure
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.usage import Usage
from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, Tensor, TensorRef
from kb_messages import KbError

_SIDE: Final = 64


class Found(NamedTuple):
    """The roofs of a run by kind, as shares of its latency, and sentences on those that are no lower bounds.

    `refused` is the error of a run that kb refuses.
    """

    shares: dict[str, float]
    broken: list[str]
    refused: str = ""


def judged(latency_ps: int, roofs: Iterable[dict[str, Any]], utilization: dict[str, float]) -> Found:
    """The roofs of a run that took *latency_ps*, as `--json` has them, and the busiest shares of its blocks."""
    shares, broken = {}, []
    for each in roofs:
        kind, least_ps, even_ps = each["kind"], each["least_ps"], each["even_ps"]
        if least_ps is None:
            broken += [f"{each['node']} is faster than {kind} states"] if each["is_beaten"] else []
            continue
        shares[kind] = least_ps / latency_ps if latency_ps else 0.0
        if least_ps > latency_ps:
            broken.append(f"{kind}: {each['node']} needs {least_ps} ps of {latency_ps}")
        if even_ps is not None and even_ps > least_ps:
            broken.append(f"{kind}: {even_ps} ps with equal shares, {least_ps} for the busiest part")
    broken += [f"{kind} was busy for {share} of the time" for kind, share in utilization.items() if share > 1]
    return Found(shares, broken)


def bundled(chips: Sequence[Path], benchmarks: Sequence[Path] = BENCHMARKS) -> Iterator[tuple[str, Found]]:
    """(run, roofs) of each of *benchmarks* on each of *chips*, in a process of its own."""
    for chip in chips:
        for benchmark in benchmarks:
            yield f"{benchmark.stem} on {chip.stem}", _of_bundled(benchmark, chip)


def _of_bundled(benchmark: Path, chip: Path) -> Found:
    run, error = run_alone(benchmark, chip, SMALL.get(benchmark.stem, ()), "--no-verify", "--no-log")
    if error:
        return Found({}, [], error)
    return judged(run["latency_ps"], run["roofs"], {kind: each["utilization"] for kind, each in run["busiest"].items()})


def drawn(seed: int) -> random_chips.ChipCase:
    """The random chip and kernel of *seed*: other memories, several transfers under way, and often no latencies."""
    case = random_chips.draw(seed, 4)
    rng = random.Random(f"{seed} roofs")
    if rng.random() < 0.4:
        case = random_networks.with_network(case)
    spec = copy.deepcopy(case.spec)
    nodes, pe = spec["cube"]["nodes"], spec["cube"]["pe_template"]["nodes"]
    pe["pe_dma"]["outstanding"] = rng.choice((1, 2, 8))
    pe["pe_gemm"] |= rng.choice(({}, {"sustained_clock_ghz": 0.8}, {"sustained_clock_ghz": 2.1}))
    if nodes["hbm"]["impl"] == "builtin.hbm_banked":
        nodes["hbm"]["impl"] = rng.choice(("builtin.hbm_banked", "builtin.hbm_reordered"))
    elif rng.random() < 0.6:
        nodes["hbm"] |= _cache(rng)
        nodes["hbm"].pop("burst_nbytes", None)
    if "sram" in nodes:
        nodes["sram"]["ports"] = rng.choice(("shared", "separate"))
    if "packets" not in spec and rng.random() < 0.3:
        spec["multicast"] = {"receivers": rng.choice((2, 4))}
    if rng.random() < 0.5:
        _without_latencies(spec)
    if rng.random() < 0.4:  # the memories are slower than everything before them
        for link in spec["cube"]["links"]:
            link["bw_gbs"] = 1000
        for name in {"hbm", "sram"} & nodes.keys():
            nodes[name] |= {"bw_gbs": rng.choice((4, 16))} if "bw_gbs" in nodes[name] else {}
        pe["pe_tcm"]["bw_gbs"], pe["pe_math"]["lanes"] = 1000, 128
    return case._replace(spec=spec)


def _cache(rng: random.Random) -> dict[str, Any]:
    """The attributes of a memory with a small cache."""
    return {
        "impl": "builtin.cached",
        "cache_bw_gbs": rng.choice((64, 256, 1000)),
        "cache_latency_ns": rng.choice((0, 20)),
        "sets": rng.choice((4, 64)),
        "ways": rng.choice((1, 4)),
        "line_nbytes": rng.choice((32, 128)),
        "index": rng.choice(("modulo", "hashed")),
        "write": rng.choice(("back", "back", "through")),
        "multicast": rng.choice((1, 2)),
    }


def _without_latencies(spec: Any) -> None:
    """Sets every time of a chip to 0, and every length, so that parts are busy all the time."""
    for key, value in spec.items() if isinstance(spec, dict) else enumerate(spec) if isinstance(spec, list) else ():
        if isinstance(value, dict | list):
            _without_latencies(value)
        elif key in ("overhead_ns", "latency_ns", "length_mm", "setup_ns", "issue_ns", "command_ns", "wire_ps_per_mm"):
            spec[key] = 0


def streaming(tl: Language, x: TensorRef, y: TensorRef, w: TensorRef, steps: Sequence[tuple[str, int]]) -> None:
    """Reads, writes, products and functions of large blocks, which keep parts busy. Programs share all tensors."""
    zeros = tl.zeros((_SIDE, _SIDE), "f32")
    for name, number in steps:
        block = slice(_SIDE * (number % 4), _SIDE * (number % 4) + _SIDE)
        match name:
            case "read":
                tl.load(x[block, :])
            case "write":
                tl.store(y[block, :], zeros)
            case "math":
                tl.sum(tl.exp(tl.load(x[block, :])), axis=number % 2)
            case _:
                tl.wait(tl.composite("gemm", x[block, :], w, out=y[block, :]))


def random_run(seed: int) -> Found:
    """The roofs of the random chip of *seed*: of its random kernel, or of one that keeps parts busy, launched twice."""
    case, rng = drawn(seed), random.Random(f"{seed} run")
    plans, usage = PlanTally(), Usage()
    try:
        writer = rng.choice((None, MemoryLogWriter()))
        engine = Engine(random_chips.topology_of(case.spec), writer, [plans, usage])
        is_streaming = rng.random() < 0.6
        host = Host(engine, Path(__file__).parent)
        if is_streaming:
            streamed(case, host, rng)
        else:
            other = random_kernels.launched(case.kernel, engine, case.seed, random_chips.placing(case))
        launches = host.launches if is_streaming else [other]
    except KbError as error:
        return Found({}, [], str(error))
    metrics = measure(engine, launches, plans, None, usage)
    roofs = [
        {name: getattr(each, name) for name in ("kind", "node", "least_ps", "even_ps", "is_beaten")}
        for each in metrics.roofs
    ]
    span_ps = metrics.span_ps
    busy = {f"{kind} {node}": ps / span_ps for kind, node, ps in usage.busy_ps if span_ps and kind != "link"}
    return judged(span_ps, roofs, busy)


def streamed(case: random_chips.ChipCase, host: Host, rng: random.Random) -> Tensor:
    """Launches random steps of `streaming` twice on the PEs of *case*. Returns the tensor that is written."""
    pes = range(case.kernel.programs)
    memories = random_chips.memories_of(case.spec)
    if rng.random() < 0.5:  # all bytes lie in one memory
        memories = [rng.choice([each for each in memories if each["memory"] == memories[-1]["memory"]])]
    data = np.ones((4 * _SIDE, _SIDE), np.float32)
    x = host.tensor("x", data, DType.F32, **rng.choice(memories))
    w = host.tensor("w", data[:_SIDE], DType.F32, **rng.choice(memories))
    y = host.tensor("y", data, DType.F32, **rng.choice(memories))
    kinds = rng.choice((("read",), ("write",), ("read", "write"), ("gemm",), ("read", "write", "math", "gemm")))
    for _ in range(2):
        steps = [(rng.choice(kinds), rng.randrange(8)) for _ in range(rng.choice((4, 24)))]
        host.launch(streaming, x, y, w, steps, pes=pes)
    return y


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print each run that breaks a roof, and how near the others came; say by the exit code whether none does."""
    return check(__doc__, arguments, bundled, random_run, summary)


def summary(found: Sequence[Found]) -> str:
    """The number of runs, and the highest share of each kind of roof."""
    highest: dict[str, float] = {}
    for each in found:
        for kind, share in each.shares.items():
            highest[kind] = max(share, highest.get(kind, 0.0))
    n_broken, n_refused = sum(bool(each.broken) for each in found), sum(bool(each.refused) for each in found)
    shares = ", ".join(f"{kind} {100 * share:.1f} %" for kind, share in sorted(highest.items()))
    return f"{len(found)} runs, {n_refused} refused, {n_broken} below a roof; highest: {shares}"


if __name__ == "__main__":
    sys.exit(main())
