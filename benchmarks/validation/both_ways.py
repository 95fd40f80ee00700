"""Random cases that are simulated in two ways: the outcome of a run, and the comparison of many outcomes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from kb_dataexec import OpLog
from kb_engine import Engine, Tensor
from kb_engine.block import MemoryComponent


class Outcome(NamedTuple):
    """The outcome of a run by kind of fact, and how much of it was not simulated; of a refused run the error's text."""

    found: Mapping[str, Any]
    skipped: int


class Comparison(NamedTuple):
    """A case both ways: the kinds of facts that differ, how much was skipped, and the text of a refused run's error."""

    seed: int
    differs: list[str]
    skipped: int
    refusal: str

    @property
    def is_refused(self) -> bool:
        return bool(self.refusal)


def state_of(engine: Engine, result: object, log: OpLog | None) -> dict[str, Any]:
    """The outcome of the run of *engine* with *result*, by kind of fact. *log* is the closed log, if there is one."""
    blocks = engine.components.values()
    return {
        "log": log.digest if log is not None else "",
        "launch": str(result),
        "links": [(str(each.link), each.busy_ps, each.nbytes) for each in engine.fabric.links],
        "counters": [block.counts() for block in blocks],
        "memories": [
            (each.busy_ps, each.read_nbytes, each.written_nbytes)
            for each in blocks
            if isinstance(each, MemoryComponent)
        ],
        "queues": [(server.busy_ps, server.served) for server in engine.servers],
        "end": engine.clock.now_ps,
    }


def memory_of(engine: Engine, tensors: Iterable[Tensor]) -> dict[str, Any]:
    """The bytes of *tensors* in *engine*: the pending ones, row by row, and all others."""
    matrices = [matrix for each in tensors for _, matrix in each.every_block()]
    memory = engine.memory
    rows = [each.part(row, 0, 1, each.cols) for each in matrices for row in range(each.rows)]
    held = [memory.store.held(*each.rectangle.in_memory) for each in matrices]
    return {
        "pending": [str(memory.pending.producer(row)) for row in rows],
        "bytes": [((data * is_valid).tobytes(), is_valid.tobytes()) for data, is_valid in held],
    }


def compared(seed: int, folded: Outcome, simulated: Outcome) -> Comparison:
    """The comparison of the case of *seed* with skipped work (*folded*) and *simulated* event by event."""
    names = folded.found.keys() | simulated.found.keys()
    differs = sorted(name for name in names if folded.found.get(name) != simulated.found.get(name))
    return Comparison(seed, differs, folded.skipped, simulated.found.get("refusal", ""))


def compare_many(
    about: str | None,
    compare: Callable[[int], Comparison],
    cases: int,
    skipped: str,
    show: Callable[[int], str] | None = None,
) -> int:
    """Compares the cases of the command line, by default *cases*. *skipped* is the name of the skipped work.

    With *show*, one case may be asked for, whose text is printed. Returns the exit code.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=cases, help="random cases")
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--processes", type=int, default=2)
    if show is not None:
        parser.add_argument("--case", type=int, help="one case, with its text")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.cases)
    if show is not None and arguments.case is not None:
        print(show(arguments.case))
        seeds = range(arguments.case, arguments.case + 1)
    found: list[Comparison] = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for each in pool.map(compare, seeds, chunksize=4):
            found.append(each)
            if each.differs:
                print(f"case {each.seed}: differs in {', '.join(each.differs)}", flush=True)
    differing = [each for each in found if each.differs]
    folded = [each.skipped for each in found if each.skipped]
    refused = sum(each.is_refused for each in found)
    print(
        f"{len(found)} cases, {refused} refused; {len(folded)} were folded, and {sum(folded)} {skipped} skipped; "
        f"{len(differing)} differ"
    )
    return int(bool(differing))
