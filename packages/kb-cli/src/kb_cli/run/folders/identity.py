"""The identity of a run: benchmark, chip, seed, flags and versions. A hash of it names the run folder."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Any

import msgspec
import numpy as np

from kb_cli.benchmark.run_records import CheckMode
from kb_cli.benchmark.setup import Setup
from kb_cli.terminal.escape import file_stem
from kb_engine.engine import BUILTIN, Registry
from kb_messages import BenchmarkError, check_text
from kb_topology import Topology

_PACKAGES = ("kb-messages", "kb-topology", "kb-plans", "kb-dataexec", "kb-engine", "kb-components", "kb-cli")


def identity(setup: Setup) -> dict[str, Any]:
    """Returns all that decides a run's results, except its parameters or shapes."""
    loaded, call, script = setup.loaded, setup.loaded.call, setup.loaded.script
    return {
        **({} if call is None else {"call": msgspec.to_builtins(call)}),
        **({} if script is None else {"script": msgspec.to_builtins(script)}),
        "benchmark": {"name": loaded.name, "file": loaded.label, "sha256": loaded.sha256, **_beside(setup)},
        "topology": {"name": setup.topology.name, "digest": setup.topology.digest},
        "seed": setup.seed,
        "flags": {"verify": setup.verify, "log": setup.log, **_check_of(setup)},
        "versions": versions(setup.topology),
    }


def _beside(setup: Setup) -> dict[str, dict[str, str]]:
    """Returns the hashes of the files that the benchmark imports from its folder; {} if it imports none."""
    files = {name: hashlib.sha256(content).hexdigest() for name, content in setup.loaded.beside.items()}
    return {"beside": files} if files else {}


def _check_of(setup: Setup) -> dict[str, str]:
    """Returns the check of outputs, if the user chose one."""
    return {} if setup.check is CheckMode.AUTO else {"check": setup.check}


def versions(topology: Topology) -> dict[str, str]:
    """Returns the versions of kernbench's packages, and of other packages that provide blocks of *topology*."""
    others = {node.impl for node in topology.graph.nodes.values() if not node.impl.startswith(BUILTIN)}
    given = Registry().versions(others) if others else {}
    return {name: version(name) for name in _PACKAGES} | given


def missing(run_versions: Mapping[str, str]) -> str | None:
    """Returns the first package of *run_versions* that is not installed, with its version; None if all are
    installed.
    """
    for name, number in run_versions.items():
        try:
            distribution(name)
        except (PackageNotFoundError, ValueError):
            return f"{name} {number}"
    return None


def environment() -> dict[str, str]:
    """Returns the versions of Python and numpy. They are recorded, but do not change the name of a run folder."""
    return {"python": platform.python_version(), "numpy": np.__version__}


def folder_name(bench_name: str, config: dict[str, Any]) -> str:
    """Returns `<bench>-<hash>`, where the hash is the first 12 hex digits of the sha256 of *config* as JSON.

    Raises BenchmarkError for a text that JSON cannot hold, such as the name of a file that is no UTF-8.
    """
    try:
        encoded = msgspec.json.encode(config)
    except UnicodeEncodeError as error:
        check_text(error.object, f"the record of {bench_name}", BenchmarkError)
        raise
    return f"{file_stem(bench_name, 'bench')}-{hashlib.sha256(encoded).hexdigest()[:12]}"
