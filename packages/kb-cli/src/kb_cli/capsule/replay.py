"""Repeats the run of a capsule, and decides whether it is the same run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from kb_cli.benchmark import bundled
from kb_cli.capsule.pack import SUFFIX
from kb_cli.capsule.unpack import opened
from kb_cli.run.base.files import BENCH, BESIDE, RunFolderError
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.base.result import Policy, RunResult
from kb_cli.run.folders.identity import environment, missing, versions
from kb_cli.run.records.run_json import RunJson
from kb_cli.run.saving.save import record_run, run_once
from kb_cli.whatif.ran_setup import read_setup
from kb_messages import KbError

_MOST_UNTRUSTED_NBYTES: Final = 16 << 20
"""The most bytes that the replay of an untrusted capsule writes. Source: assumed; a bundled chip and a benchmark
have some thousand bytes."""


class Replayed(Struct, frozen=True, kw_only=True):
    """A run and its repetition. `same` is decided by the log's digest, or by the latency of a run without a log.

    `digests`, `latencies_ps` and `verified` are pairs of the run and of the repetition. `versions` has the packages
    whose versions differ, the run's version first. `run_dir` is the folder of the repetition, if it has one.
    """

    capsule: str
    benchmark: str
    topology: str
    same: bool
    digests: tuple[str | None, str | None]
    latencies_ps: tuple[int, int]
    verified: tuple[bool | None, bool | None]
    versions: dict[str, tuple[str, str]]
    run_dir: str | None


def replay(capsule: Path, trust: bool, out: Path | None, progress: RunProgress) -> Replayed:
    """Repeats the run of *capsule*, in a run folder below *out* if that is given.

    Without *trust*, only benchmarks that come with kb are run, from where kb is installed. Raises RunFolderError for
    any other benchmark then, before anything is unpacked, and for a file that is no capsule.
    """
    if capsule.is_dir():
        fix = f"kb pack {shlex.quote(str(capsule))} -o run{SUFFIX} makes one of a run folder"
        raise RunFolderError(str(capsule), "a folder", "a file that kb pack wrote", fix)
    with opened(capsule) as packed:
        _refuse_without_inputs(capsule, packed.run)
        if not trust:
            _refuse_unknown(capsule, packed.run)
            _refuse_large(capsule, packed.replayed_nbytes)
        _refuse_missing(capsule, packed.run)
        with TemporaryDirectory(prefix="kb-replay-") as place, _named_by(capsule, folder := Path(place) / "run"):
            folder.mkdir()
            packed.unpack(folder, is_replay=True)
            ran = read_setup(folder, only_bundled=not trust)
            setup = ran.setup._replace(verify=ran.run.flags.verify, log=ran.run.flags.log)
            if out is not None:
                result = run_once(setup, out, Policy.AUTO).result
            else:
                repeated = Path(place) / "repeated"
                result = record_run((repeated, repeated), setup, Policy.NONE, progress).result
            here = {**versions(setup.topology), **environment()}
            return _compared(capsule, ran.run, result, here, out is not None)


@contextmanager
def _named_by(capsule: Path, folder: Path) -> Iterator[None]:
    """Makes errors about *folder*, a temporary folder, name *capsule* in its place."""
    try:
        yield
    except KbError as error:
        for path in (str(folder.resolve()), str(folder)):
            error.where, error.got, error.needs, error.fix = (
                part.replace(path, str(capsule)) for part in (error.where, error.got, error.needs, error.fix)
            )
        raise


def _refuse_without_inputs(capsule: Path, run: RunJson) -> None:
    """Raises RunFolderError for a call of `kernbench.run` whose arrays *capsule* does not have."""
    if run.call is not None and not run.call.why_not and not run.keep.data:
        got = f"a run of {run.benchmark.name} without its inputs ({run.keep.why})"
        fix = "pack a run folder that kept its data; the capsules of golden times are for comparisons alone"
        raise RunFolderError(str(capsule), got, "the arrays that the kernel was given", fix)


def _refuse_unknown(capsule: Path, run: RunJson) -> None:
    """Raises RunFolderError unless *run*, the run.json of *capsule*, claims a benchmark that comes with kb."""
    name, claim = run.benchmark.file, run.files.get(BENCH)
    installed = bundled.benchmark(name)
    known = claim is not None and installed is not None and sha256(installed.read_bytes()).hexdigest() == claim.sha256
    if not known or run.call is not None or run.script is not None:
        size = "no" if claim is None else claim.nbytes
        beside = len(run.benchmark.beside)
        more = f" and {beside} {'file' if beside == 1 else 'files'} that it imports" if beside else ""
        got = f"the program {name[:80]!r} of {size} bytes{more}, which does not come with kb"
        files = f"{BENCH} '{BESIDE}/*'" if beside else BENCH
        fix = f"read it with unzip -p {shlex.quote(str(capsule))} {files}, and add --trust if you trust it"
        raise RunFolderError(str(capsule), got, "your trust, because a replay runs it with all your rights", fix)


def _refuse_large(capsule: Path, nbytes: int) -> None:
    """Raises RunFolderError where a replay would write more bytes than a bundled benchmark and a chip have."""
    if nbytes > _MOST_UNTRUSTED_NBYTES:
        got, needs = f"{nbytes:,} bytes to write for a replay", f"at most {_MOST_UNTRUSTED_NBYTES:,} without your trust"
        raise RunFolderError(str(capsule), got, needs, "add --trust if you trust the file")


def _refuse_missing(capsule: Path, run: RunJson) -> None:
    """Raises RunFolderError where a package with blocks of the chip of *run* is not installed."""
    name = missing(run.versions)
    if name is not None:
        got = f"a run on a chip with blocks of {name[:80]}, which is not installed"
        raise RunFolderError(str(capsule), got, "the packages of all blocks of the run")


def _compared(capsule: Path, run: RunJson, result: RunResult, here: dict[str, str], kept: bool) -> Replayed:
    before = {**run.versions, **run.environment}
    same = run.log_digest == result.log_digest and run.results.latency_ps == result.latency_ps
    return Replayed(
        capsule=str(capsule),
        benchmark=run.benchmark.name,
        topology=run.topology.name,
        same=same,
        digests=(run.log_digest, result.log_digest),
        latencies_ps=(run.results.latency_ps, result.latency_ps),
        verified=(run.results.verified, result.verified),
        versions={name: (was, here.get(name, "none")) for name, was in before.items() if here.get(name) != was},
        run_dir=str(result.run_dir) if kept else None,
    )
