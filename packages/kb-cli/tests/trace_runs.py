"""Runs for the tests of `kb trace`, and what their traces say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result
from perfetto_decoder import Decoded

from kb_cli.trace.critical_path import PATH

Invoke = Callable[..., Result]
GEMM = ["-p", "M=72", "-p", "N=40", "-p", "K=56", "-p", "tile=16x16x24"]


def gemm_run(invoke: Invoke, runs: Path) -> Path:
    """The folder of a run on eight PEs below *runs*, made if it is not there. The sizes do not divide into tiles."""
    found = list(runs.glob("gemm-*"))
    if not found:
        invoke("run", "gemm", *GEMM, "--levers", "none", "--out", runs)
        found = list(runs.glob("gemm-*"))
    return found[0]


def copied(folder: Path, place: Path) -> Path:
    """A copy of the run, to damage."""
    for path in sorted(folder.rglob("*")):
        copy = place / "x" / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            copy.write_bytes(path.read_bytes())
    return place / "x"


def read(invoke: Invoke, folder: Path, name: str, *options: str) -> Decoded:
    done = invoke("trace", folder, "-o", name, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    return Decoded.file(Path(name))


def services(decoded: Decoded) -> list[Any]:
    """The slices of PEs outside the critical path, by op."""
    return sorted(
        (each for each in decoded.slices if each.track[1].startswith("sip") and each.track[2] != PATH),
        key=lambda each: each.arguments["op"],
    )
