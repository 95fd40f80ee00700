"""Tables of `kb replay`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kb_cli.capsule.replay import Replayed
from kb_cli.terminal.output import BAD, GOOD, WARNING, new_table, styled
from kb_cli.terminal.units import duration

_VERDICTS = {None: "-", True: "ok", False: "FAILED"}


def replay_tables(found: Replayed) -> Iterator[Any]:
    """Yields the verdict, a table of both runs, and differences of versions."""
    title = f"{found.benchmark} on {found.topology}"
    yield styled(f"{title}: the same run", GOOD) if found.same else styled(f"{title}: not the same run", BAD)
    table = new_table("", "the run", "here")
    table.add_row("latency", *(duration(ps) for ps in found.latencies_ps))
    table.add_row("log digest", *("-" if digest is None else digest[:16] for digest in found.digests))
    table.add_row("verified", *(_VERDICTS[verdict] for verdict in found.verified))
    yield table
    for name, (before, here) in found.versions.items():
        yield styled(f"{name}: the run had {before}, here is {here}", WARNING)
    if found.run_dir is not None:
        yield found.run_dir
