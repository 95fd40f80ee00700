"""Which comparison of a chip with a device validates a run, and the reason where none does.

Design: docs/design/attribution.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import fields

from kb_cli.benchmark import bundled
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import default_of, params_code, shown_params
from kb_cli.run.base.fidelity_band import Fidelity
from kb_cli.terminal.units import PS_PER_NS, value_text
from kb_topology import Topology, Validation


class KernelOfRun(NamedTuple):
    """The kernel of a run, as comparisons name kernels.

    `bundled_as` is the name of the bundled benchmark that the run ran byte for byte, "" for any other kernel. `sha256`
    is that of the benchmark's only file, in hex, and "" where a benchmark has more files or none. `facts` are the
    parameters as reports show them, and the choices of the benchmark on this chip, which go before parameters of the
    same name. `others` are the parameters that do not have their default, by name, each with the default or UNSET.
    """

    name: str
    bundled_as: str = ""
    sha256: str = ""
    facts: Mapping[str, object] = {}
    others: Mapping[str, object] = {}


def fidelity_of_run(setup: Setup, choices: Mapping[str, object], latency_ps: int, startup_ps: int) -> Fidelity:
    """Returns the fidelity of a run of *setup*, whose benchmark said *choices* by `Host.chose`.

    The run took *latency_ps*, and *startup_ps* for its start-up before.
    """
    if not setup.topology.spec.fidelity:
        return Fidelity(validated=False, why="no comparison of this chip with a device")
    return fidelity_of(setup.topology, kernel_of_run(setup, choices), latency_ps, startup_ps)


def kernel_of_run(setup: Setup, choices: Mapping[str, object]) -> KernelOfRun:
    """Returns the kernel of a run of *setup*, whose benchmark said *choices* by `Host.chose`."""
    loaded = setup.loaded
    if loaded.call is not None or loaded.script is not None:  # a call of a kernel, and no file that is a benchmark
        return KernelOfRun(loaded.name)
    is_bundled = bundled.shipped(loaded.path.name, loaded.source) is not None
    shown = shown_params(setup.params)
    with params_code(type(setup.params)):
        defaults = {field.encode_name: default_of(field) for field in fields(setup.params)}
    return KernelOfRun(
        name=loaded.name,
        bundled_as=loaded.path.stem if is_bundled else "",
        sha256="" if loaded.beside else loaded.sha256,
        facts={**shown, **choices},
        others={name: default for name, default in defaults.items() if shown[name] != default},
    )


def fidelity_of(topology: Topology, kernel: KernelOfRun, latency_ps: int, startup_ps: int) -> Fidelity:
    """Returns the fidelity of a run of *kernel* that took *latency_ps*, and *startup_ps* for its start-up before.

    The first comparison of *topology* whose conditions all hold validates the run. Without one, the reason is that of
    the comparison of which most conditions hold. *topology* states one comparison at least.
    """
    every: Sequence[Validation] = topology.spec.fidelity or []
    of_chip = [each for each in every if each.is_of(topology.digest)]
    if not of_chip:
        why = f"the chip was changed since its {every[0].test} test against {every[0].device}"
        return Fidelity(validated=False, why=why, device=every[0].device, source=every[0].source)
    failed: list[tuple[int, str, Validation]] = []
    for stated in of_chip:
        first = next(((at, why) for at, why in enumerate(_conditions(stated, kernel)) if why), None)
        if first is None:
            return _band(stated, latency_ps, startup_ps)
        failed.append((*first, stated))
    _, why, near = max(failed, key=lambda each: each[0])
    return Fidelity(validated=False, why=why, test=near.test, device=near.device, rows=near.rows, source=near.source)


def _band(stated: Validation, latency_ps: int, startup_ps: int) -> Fidelity:
    counted_ns = startup_ps / PS_PER_NS if stated.startup == "counted" else stated.startup_ns or 0.0
    time_ns = latency_ps / PS_PER_NS + counted_ns
    return Fidelity(
        validated=True,
        test=stated.test,
        kernel=stated.kernel or None,
        time_ns=time_ns,
        startup_ns=counted_ns,
        low_ns=time_ns * math.exp(-stated.p90),
        high_ns=time_ns * math.exp(stated.p90),
        device=stated.device,
        rows=stated.rows,
        p90=stated.p90,
        source=stated.source,
        times=stated.times or None,
    )


def _conditions(stated: Validation, kernel: KernelOfRun) -> Iterator[str]:
    """Yields for each condition of *stated*, in order, the reason why *kernel* fails it, and "" where it holds."""
    yield _other_kernel(stated, kernel)
    for name, values in (stated.equal or {}).items():
        yield _other_value(stated, name, values, kernel.facts)
    for name, (low, high) in (stated.ranges or {}).items():
        yield _outside(stated, name, (low, high), kernel.facts)
    for name, default in kernel.others.items():
        if name not in (stated.equal or {}) and name not in (stated.ranges or {}):
            yield _not_default(stated, name, default, kernel.facts[name])


def _other_kernel(stated: Validation, kernel: KernelOfRun) -> str:
    if stated.kernel is UNSET:
        return f"only a part of the chip is, by {stated.rows_text}"
    if stated.sha256 is UNSET:
        is_same = kernel.bundled_as == stated.kernel
        what = f"the bundled benchmark {stated.kernel}"
    else:
        is_same = kernel.name == stated.kernel and kernel.sha256.startswith(stated.sha256)
        what = f"the benchmark {stated.kernel} with SHA-256 {stated.sha256}"
    return "" if is_same else f"only {what} is, by {stated.rows_text}"


def _other_value(stated: Validation, name: str, values: Sequence[object], facts: Mapping[str, object]) -> str:
    texts = list(map(value_text, values))
    if name not in facts:
        return _no_fact(stated, name)
    value = value_text(facts[name])
    return "" if value in texts else f"{name}={value}, not {' or '.join(texts)} as in the {stated.rows_text}"


def _outside(stated: Validation, name: str, bounds: tuple[float, float], facts: Mapping[str, object]) -> str:
    if name not in facts:
        return _no_fact(stated, name)
    value, (low, high) = facts[name], bounds
    if isinstance(value, int | float) and low <= value <= high:
        return ""
    return f"{name}={value_text(value)} lies outside {low:.15g} to {high:.15g} of the {stated.rows_text}"


def _no_fact(stated: Validation, name: str) -> str:
    return f"the run has no {name}, unlike the {stated.rows_text}"


def _not_default(stated: Validation, name: str, default: object, value: object) -> str:
    if default is UNSET:
        return f"{name}={value_text(value)}, of which the comparison with the {stated.rows_text} says nothing"
    return f"{name}={value_text(value)}, not the default {value_text(default)} as in the {stated.rows_text}"
