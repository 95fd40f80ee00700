"""Options of the process's device: from a caller, or from environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from msgspec import Struct

from kb_messages import KbError, TopologyError, int_of
from kb_topology import NodeKind, Topology, load_topology, loads_topology, with_values

BUNDLED: Final = "kb.topologies"
"""Entry points of packages that bring chips: functions from the name of a chip to its file."""
_ISSUES: Final = ("blocking", "scoreboard", "decoupled")
_SCHEDULES: Final = ("dynamic", "static")


class Options(Struct, frozen=True, kw_only=True):
    """The options of a process's device.

    `topology` is the name of a bundled chip, or the path of a YAML file. `issue` is the way in which the PE_CPUs issue
    commands, `blocking`, `scoreboard` or `decoupled`; None leaves the chip as its file describes it.
    `transfers` charges the transfers of arrays to the chip and back. `schedule` assigns the programs of a grid to PEs,
    `dynamic` or `static`. `autotune` is the number of configurations that an autotuner tries, None for all; with 1,
    the first one is taken untried. Without `templates`, every program runs its kernel, which gives the same results
    and takes longer. With `lenient`, kernels run that Triton's compiler refuses.
    """

    topology: str = "one_cube"
    issue: str | None = None
    transfers: bool = False
    schedule: str = "dynamic"
    autotune: int | None = None
    templates: bool = True
    lenient: bool = False


def options_of(environment: Mapping[str, str] = os.environ) -> Options:
    """Returns the options in KB_TOPOLOGY, KB_ISSUE, KB_TRANSFERS, KB_SCHEDULE, KB_AUTOTUNE, KB_TEMPLATES, KB_LENIENT.

    Raises KbError for a value that its variable does not take.
    """
    return Options(
        topology=environment.get("KB_TOPOLOGY") or "one_cube",
        issue=_one_of("KB_ISSUE", environment.get("KB_ISSUE") or None, _ISSUES),
        transfers=environment.get("KB_TRANSFERS", "") not in ("", "0"),
        schedule=_one_of("KB_SCHEDULE", environment.get("KB_SCHEDULE") or "dynamic", _SCHEDULES) or "dynamic",
        autotune=most_configurations("KB_AUTOTUNE", environment.get("KB_AUTOTUNE") or "all"),
        templates=environment.get("KB_TEMPLATES", "") != "0",
        lenient=environment.get("KB_LENIENT", "") not in ("", "0"),
    )


def most_configurations(where: str, text: str) -> int | None:
    """Returns the number of configurations that *text* stands for: None for `all`, 1 for `first`, or the number.

    Raises KbError, which begins with *where*, for another text.
    """
    if text in ("all", "first"):
        return None if text == "all" else 1
    found = int_of(text)
    if not found:
        raise KbError(where, repr(text), "all, first, or a number from 1 on")
    return found


def topology_of(options: Options) -> Topology:
    """Returns the chip of *options*.

    Raises TopologyError for a name that no package brings, and for a file that describes no chip.
    """
    return issuing(load_topology(_file_of(options.topology)), options.issue)


def issuing(topology: Topology, issue: str | None) -> Topology:
    """Returns *topology* with PE_CPUs that issue by *issue*; None leaves the chip as its file describes it."""
    if issue is None:
        return topology
    places = {(*node.yaml_path, "issue"): issue for node in topology.graph.nodes_of_kind(NodeKind.PE_CPU)}
    source = with_values(topology.source, places)
    return loads_topology(source.text, source.path)


def _file_of(name: str) -> Path:
    finders = [each.load() for each in entry_points(group=BUNDLED)]
    if finders:
        found: Path = finders[0](name)
        return found
    if name.endswith((".yaml", ".yml")) or "/" in name or "\\" in name:
        return Path(name)
    fix = "install kb-cli, which brings chips"
    raise TopologyError(f"topology {name!r}", "a name without a file", "the path of a YAML file", fix)


def _one_of(where: str, text: str | None, known: tuple[str, ...]) -> str | None:
    if text is not None and text not in known:
        raise KbError(where, repr(text), f"one of {', '.join(known)}")
    return text
