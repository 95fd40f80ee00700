"""The cost of views of a run of a million records, beside its aims: path, report, trace, page, sizes, imports.

    python benchmarks/speed/looking.py                     # gemm 8192 x 12288 x 5120, eight PEs: two minutes
    python benchmarks/speed/looking.py --quick             # an eighth of it, one round
    python benchmarks/speed/looking.py --against ../other  # in turns with the code of another checkout and its .venv

The runs are made once, by this checkout. Each round of a measurement is a process of its own. Seconds are the least of
the rounds: CPU time, of all threads, and time on the clock. A machine that is busy with something else makes both
longer, the time on the clock much more.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from threading import enumerate as all_threads
from time import perf_counter, process_time
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
MANY_PES = ["--topology", "four_sip", "-p", "operands=one_slice", "-p", "M=2048", "-p", "N=2048", "-p", "K=512"]
"""PEs that compete, so that each of the 512 has rows of its own in the report."""
LANES_SHOWN, PIXELS = 60, 1400
Figures = dict[str, float]


class Aim(NamedTuple):
    """One line of the table: a figure of a measurement, in *unit*, at most *most*; None for a figure without an aim."""

    measurement: str
    figure: str
    what: str
    unit: str
    most: float | None


AIMS = [
    Aim("path", "cpu_s", "attribution", "s CPU", 3),
    Aim("path", "peak_mb", "attribution: peak memory, log included", "MB", 1000),
    Aim("report", "cpu_s", "kb report without levers", "s CPU", None),
    Aim("report", "wall_s", "kb report without levers", "s", 5),
    Aim("trace", "cpu_s", "kb trace", "s CPU", None),
    Aim("trace", "wall_s", "kb trace, Python's start included", "s", 2),
    Aim("trace", "slice_nbytes", "kb trace: bytes a slice", "B", 50),
    Aim("trace", "packed_nbytes", "kb trace: bytes a slice, packed", "B", 15),
    Aim("timeline", "index_s", "timeline: index", "s CPU", 1),
    Aim("timeline", "window_ms", "timeline: a window", "ms CPU", 25),
    Aim("timeline", "window_kb", "timeline: bytes of a window", "kB", 200),
    Aim("page", "page_kb", "page: HTML, script and style", "kB", 200),
    Aim("page", "cpu_s", "page: from the click to the lanes' bytes", "s CPU", None),
    Aim("page", "wall_s", "page: from the click to the lanes' bytes", "s", 1),
    Aim("many_pes", "html_mb", "HTML report of 512 PEs", "MB", 2),
    Aim("imports", "web_ms", "import of kb_cli.web", "ms CPU", 30),
    Aim("imports", "server_ms", "the same, with what serves the page", "ms CPU", None),
    Aim("imports", "help_ms", "kb --help", "ms CPU", None),
]


def ran(*command: object) -> tuple[float, float, str]:
    """CPU seconds, seconds on the clock, and output of a process that ends with 0."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    wall_s, after = perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s, done.stdout


def make_run(out: Path, *options: str) -> Path:
    """A run with its op log, without data."""
    kb = Path(sys.executable).with_name("kb")
    command = (kb, "run", "gemm", *options, "-p", "dtype=f16", "--no-verify", "--keep", "all", "--out", out, "--json")
    return Path(json.loads(ran(*command)[2])["run_dir"])


def path(run: Path) -> Figures:
    """Where the time went."""
    from kb_dataexec import read_log
    from kb_dataexec.analysis import where

    log = read_log(run / "log")
    began = process_time()
    where(log)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"cpu_s": process_time() - began, "peak_mb": peak_mb, "records": log.n_ops}


def report(run: Path) -> Figures:
    """The report in the terminal."""
    cpu_s, wall_s, _ = ran(Path(sys.executable).with_name("kb"), "report", run, "--levers", "0")
    return {"cpu_s": cpu_s, "wall_s": wall_s}


def trace(run: Path) -> Figures:
    """A trace for Perfetto, plain and packed."""
    kb = Path(sys.executable).with_name("kb")
    with tempfile.TemporaryDirectory() as place:
        plain, packed = (Path(place) / f"x{ending}" for ending in (".pftrace", ".pftrace.gz"))
        cpu_s, wall_s, said = ran(kb, "trace", run, "-o", plain)
        ran(kb, "trace", run, "-o", packed)
        slices = int(said.partition(" slices")[0].rpartition(" ")[2])
        sizes = {"slice_nbytes": plain.stat().st_size / slices, "packed_nbytes": packed.stat().st_size / slices}
    return {"cpu_s": cpu_s, "wall_s": wall_s, "slices": slices, **sizes}


def timeline(run: Path) -> Figures:
    """The index of the lanes of all ops, and a window of them."""
    from kb_cli.web.answers.timeline import window_bytes
    from kb_cli.web.run_timeline import RunTimeline
    from kb_dataexec import read_log

    log = read_log(run / "log")
    began = process_time()
    lanes = RunTimeline(run, log, [])
    table, kinds = lanes.table("ops"), lanes.kinds("ops", "stage", None)
    shown = list(range(min(len(table.lanes), LANES_SHOWN)))
    window_bytes(table, kinds, shown, (lanes.start_ps, lanes.end_ps, PIXELS))
    index_s = process_time() - began
    began = process_time()
    found = window_bytes(table, kinds, shown, (lanes.start_ps + 1, lanes.end_ps // 2, PIXELS))
    return {"index_s": index_s, "window_ms": (process_time() - began) * 1e3, "window_kb": len(found) / 1e3}


def page(run: Path) -> Figures:
    """From the click on a run to the bytes that the first lanes are drawn from, as a browser asks for them."""
    from kb_cli.web.server import PageServer, page_files

    with PageServer(run.parent, run.parent / "sweeps", 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        if hasattr(server, "load_ahead"):  # the server of another checkout may have none
            server.load_ahead()
        browser = HTTPConnection("127.0.0.1", server.server_port)
        browser.request("GET", server.gate.opening.partition(str(server.server_port))[2])
        reply = browser.getresponse()
        reply.read()
        cookie = {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}

        def ask(address: str) -> bytes:
            browser.request("GET", address, headers=cookie)
            return browser.getresponse().read()

        (of_run,) = (each for each in json.loads(ask("/api/runs"))["runs"] if each["name"] == run.name)
        for thread in all_threads():  # who looks at the list gives it time
            if thread.name == "kb-web-load":
                thread.join()
        began_s, began = process_time(), perf_counter()
        lanes = json.loads(ask(f"/api/lanes?run={of_run['id']}&table=ops"))
        shown = [str(each["lane"]) for group in lanes["groups"] for each in group["lanes"]][:LANES_SHOWN]
        window = f"t0={lanes['from_ps']}&t1={lanes['until_ps']}&pixels={PIXELS}&lanes={','.join(shown)}"
        ask(f"/api/window?run={of_run['id']}&stamp={lanes['stamp']}&table=ops&colour=stage&{window}")
        found = {"cpu_s": process_time() - began_s, "wall_s": perf_counter() - began}
        server.shutdown()
    return {**found, "page_kb": sum(len(each.body) for each in page_files().values()) / 1e3}


def many_pes(run: Path) -> Figures:
    """The HTML report of a run on 512 PEs."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "x.html"
        ran(Path(sys.executable).with_name("kb"), "report", run, "--levers", "0", "-o", file)
        return {"html_mb": file.stat().st_size / 1e6}


def imports(_: Path) -> Figures:
    """Starting without doing anything. Python's own start is taken off the import, and not off `kb --help`."""
    python = sys.executable
    empty, web, server = (
        min(ran(python, "-c", code)[0] for _ in range(20))
        for code in ("", "import kb_cli.web", "import kb_cli.web.server")
    )
    help_s = min(ran(Path(python).with_name("kb"), "--help")[0] for _ in range(5))
    return {"web_ms": (web - empty) * 1e3, "server_ms": (server - empty) * 1e3, "help_ms": help_s * 1e3}


MEASUREMENTS: dict[str, Callable[[Path], Figures]] = {
    each.__name__: each for each in (path, report, trace, timeline, page, many_pes, imports)
}


def measured(checkout: Path, name: str, run: Path) -> Figures:
    """One round of the measurement *name* with the code of *checkout*."""
    python = Path(sys.executable) if checkout == CHECKOUT else checkout / ".venv" / "bin" / "python"
    found: Figures = json.loads(ran(python, Path(__file__).resolve(), "--measure", name, "--run", run)[2])
    return found


def best(rounds: list[Figures]) -> Figures:
    """The least of each figure."""
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def print_table(found: dict[Path, dict[str, Figures]]) -> None:
    """A line for each aim, with a column for each checkout."""
    print(f"{'':42}{'aim':>12}" + "".join(f"{checkout.name:>12}" for checkout in found))
    for aim in (each for each in AIMS if each.measurement in next(iter(found.values()))):
        values = [figures[aim.measurement][aim.figure] for figures in found.values()]
        most = "" if aim.most is None else f"{aim.most:g}"
        missed = "" if aim.most is None or values[0] <= aim.most else "  MISSED"
        print(f"{aim.what:42}{most:>12}" + "".join(f"{value:>12.2f}" for value in values) + f" {aim.unit}{missed}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="an eighth of the records, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout with a .venv, which is measured in turns")
    parser.add_argument("--only", choices=MEASUREMENTS, action="append", help="this measurement; may be given again")
    parser.add_argument("--measure", choices=MEASUREMENTS, help="one round of it on --run, printed as JSON")
    parser.add_argument("--run", type=Path, help="a run folder that is there, instead of a new run")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(MEASUREMENTS[options.measure](options.run)))
        return
    checkouts = [CHECKOUT, *([options.against.resolve()] if options.against else [])]
    names = options.only or list(MEASUREMENTS)
    with tempfile.TemporaryDirectory() as place:
        size = 1024 if options.quick else 8192
        shape = ["-p", f"M={size}", "-p", "N=12288", "-p", "K=5120", "-p", "tile=128x128x128"]
        run = options.run or make_run(Path(place) / "million", *shape)
        many = make_run(Path(place) / "many", *MANY_PES) if "many_pes" in names else run
        found: dict[Path, dict[str, Figures]] = {checkout: {} for checkout in checkouts}
        for name in names:
            rounds: dict[Path, list[Figures]] = {checkout: [] for checkout in checkouts}
            for _ in range(1 if options.quick else options.rounds):
                for checkout in checkouts:
                    rounds[checkout].append(measured(checkout, name, many if name == "many_pes" else run))
            for checkout in checkouts:
                found[checkout][name] = best(rounds[checkout])
    print_table(found)
    print(f"{os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
