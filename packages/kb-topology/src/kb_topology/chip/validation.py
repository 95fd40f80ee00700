"""Validation: a comparison of a chip with measured rows of a device, and the runs that are like these rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from kb_messages import TopologyError
from kb_topology.text.sentences import listing, short
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import YamlPath

Name = Annotated[str, Meta(min_length=1, max_length=100)]
Fact = str | int | float | bool
_OF_A_KERNEL = ("sha256", "equal", "ranges", "startup", "startup_ns", "times")
"""The keys that say which runs of a kernel are like the rows."""


class Validation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comparison with measured rows of `device`: products (`gemm`), a memory (`dram`), a network (`noc`), collectives
    of several devices (`collective`), or ops of a block of a model (`block`).

    In nine of ten of the `rows`, the logarithm of simulated over measured time is at most `p90` in size. `source` names
    the script of the comparison. `digest` is the beginning of the digest of the compared chip, so that a changed chip
    can be recognised. A validation changes no simulated time, and the digest of a topology leaves it out.

    A comparison of a kernel says which runs are like its rows, because no other run is validated by them. `kernel` is
    the name of the benchmark: of the bundled one byte for byte, or of a file of one's own whose SHA-256 begins with
    `sha256`. The parameters and choices of `equal` have one of the listed values, and the numbers of `ranges` lie
    between two bounds, both included. With `startup: counted`, the measured times include the start-up of the kernel,
    and with `left out` they do not, or they include another one than that of the chip: `startup_ns` nanoseconds, which
    the comparison fitted. `times` names the clock of the measured times, such as `kernel times of a
    profiler`. A comparison without `kernel` is of a part of the chip alone, and validates no run.
    """

    device: Annotated[str, Meta(min_length=1)]
    test: Literal["gemm", "dram", "noc", "collective", "block"]
    p90: Annotated[float, Meta(ge=0, le=10)]
    rows: Annotated[int, Meta(ge=1)]
    source: Annotated[str, Meta(min_length=1)]
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{12,64}$")] | UnsetType = UNSET
    kernel: Name | UnsetType = UNSET
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{12,64}$")] | UnsetType = UNSET
    equal: dict[Name, Annotated[list[Fact], Meta(min_length=1)]] | UnsetType = UNSET
    ranges: dict[Name, tuple[float, float]] | UnsetType = UNSET
    startup: Literal["counted", "left out"] | UnsetType = UNSET
    startup_ns: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    times: Name | UnsetType = UNSET

    def is_of(self, digest: str) -> bool:
        """Whether the comparison is of the chip with *digest*. A comparison without a `digest` is of any chip."""
        return self.digest is UNSET or digest.startswith(self.digest)

    @property
    def runs_text(self) -> str:
        """The runs that are like the rows: `gemm with dtype=bf16 or f16, M from 64 to 4096`."""
        if self.kernel is UNSET:
            return "a part of the chip alone"
        words = [f"{name}={' or '.join(map(str, values))}" for name, values in (self.equal or {}).items()]
        words += [f"{name} from {low:.15g} to {high:.15g}" for name, (low, high) in (self.ranges or {}).items()]
        return f"{self.kernel} with {', '.join(words)}" if words else self.kernel

    @property
    def rows_text(self) -> str:
        """The rows in a sentence: `25 gemm rows of h100_sxm`."""
        return f"{self.rows} {self.test} {'row' if self.rows == 1 else 'rows'} of {self.device}"


def check_validations(stated: Sequence[Validation], source: YamlSource) -> None:
    """Raises TopologyError for the first of *stated*, the `fidelity` of *source*, whose keys do not go together."""
    for at, each in enumerate(stated):
        for error in _errors(each, ("fidelity", at), source):
            raise error


def _errors(stated: Validation, place: YamlPath, source: YamlSource) -> Iterator[TopologyError]:
    if stated.kernel is UNSET:
        for name in _OF_A_KERNEL:
            if getattr(stated, name) is not UNSET:
                needs = f"a kernel beside {listing(_OF_A_KERNEL)}"
                yield source.error((*place, name), f"{name!r} without a kernel", needs, "add `kernel: NAME`")
        return
    if stated.digest is UNSET:
        needs = "the digest of the compared chip, because a changed chip is not validated"
        fix = "add the first 12 digits that kb topology check --json prints as `digest`"
        yield source.error((*place, "kernel"), "a kernel without a digest", needs, fix)
    if stated.startup is UNSET:
        needs = "whether the measured times include the start-up"
        fix = "add `startup: counted` or `startup: left out`"
        yield source.error((*place, "kernel"), "a kernel without 'startup'", needs, fix)
    if stated.startup == "counted" and stated.startup_ns is not UNSET:
        got, needs = "'startup_ns' beside startup: counted", "the start-up of the chip, or one of the rows"
        yield source.error((*place, "startup_ns"), got, needs, "write `startup: left out`")
    for name, (low, high) in (stated.ranges or {}).items():
        if not low <= high:
            yield source.error((*place, "ranges", name), short([low, high]), "the smaller bound first")
        if name in (stated.equal or {}):
            yield source.error((*place, "ranges", name), f"{name} in equal too", "one condition for a name")
