"""Whether a run's tensors fit the chip's memories and this machine, told before any array is made."""

from __future__ import annotations

from typing import Any

from kb_cli.benchmark.answers import checked_count
from kb_cli.benchmark.machine_memory import available_nbytes
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.user_code import user_code
from kb_messages import BenchmarkError, MemorySpace

_SPACES = (MemorySpace.HBM, MemorySpace.SRAM, MemorySpace.TCM)


def check_capacity(setup: Setup) -> None:
    """Raise BenchmarkError when the benchmark's `footprint` is more than the chip's memories or this machine hold.

    A run that passes may still be refused at one of its tensors, when one memory is full.
    """
    with user_code(setup.loaded.path, "footprint()"):
        answer: Any = setup.loaded.bench.footprint(setup.params)
    needed = checked_count(setup.place("footprint"), answer)
    regions = setup.topology.address_map.regions
    limits = {
        "all memories of the chip hold": sum(each.nbytes for each in regions if each.space in _SPACES),
        "this machine has left": available_nbytes(),
    }
    for what, limit in limits.items():
        if limit is not None and needed > limit:
            unit, nbytes = ("MiB", 1 << 20) if limit >= 1 << 20 else ("B", 1)
            got = f"{-(-needed // nbytes):,} {unit} of tensors"  # rounded up, and the limit down, so that they differ
            needs = f"at most the {limit // nbytes:,} {unit} that {what}"
            raise BenchmarkError(setup.where, got, needs, "choose smaller sizes with -p or --shapes")
