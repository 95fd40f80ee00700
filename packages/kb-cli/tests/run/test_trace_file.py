"""`kb run --trace`: the events in the file, also when the run fails."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from kb_messages import CommandComplete, KernelEnd, TraceEvent

Write = Callable[..., Path]
Invoke = Callable[..., Result]
SMALL = ["-p", "M=40", "-p", "N=24", "-p", "K=72", "-p", "tile=16x16x32", "--topology", "one_pe"]
WAIT = '    tl.wait(tl.composite("gemm", a, b, out=c))'
STUCK = """\
    from kb_engine.program import Completion
    handle = tl.composite("gemm", a, b, out=c)
    tl.wait(handle)
    handle.completion = Completion()
    tl.wait(handle)"""


def events(path: Path) -> list[TraceEvent]:
    return [msgspec.json.decode(line, type=TraceEvent) for line in path.read_bytes().splitlines()]


def test_every_event_is_a_line_and_the_last_is_the_end(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("run", "gemm", *SMALL, "--trace", "trace.jsonl", "--json")
    result = json.loads(done.stdout)
    trace = events(tmp_path / "trace.jsonl")
    # 3 x 2 x 3 tiles over M, N and K: each is read twice, fetched and multiplied, the last over K stored and written.
    counts = Counter(type(event).__name__ for event in trace)
    assert counts["EngineStart"] == counts["EngineComplete"] == counts["TileReady"] == 18 * 4 + 6 * 2
    assert counts["SubCommandDispatched"] == 18
    assert counts["FabricTransfer"] == 18 * 2 + 6
    assert isinstance(trace[-1], KernelEnd)
    assert trace[-1].t_ps == result["latency_ps"]


def test_a_trace_changes_nothing_else_and_repeats_to_the_byte(invoke: Invoke, tmp_path: Path) -> None:
    traced = json.loads(invoke("run", "gemm", *SMALL, "--trace", "one.jsonl", "--json").stdout)
    first = (Path(traced["run_dir"]) / "run.json").read_bytes()
    plain = json.loads(invoke("run", "gemm", *SMALL, "--json").stdout)
    assert traced["run_dir"] == plain["run_dir"]
    assert (Path(plain["run_dir"]) / "run.json").read_bytes() == first
    invoke("run", "gemm", *SMALL, "--trace", "two.jsonl", "--no-log")
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes() != b""


def test_a_stuck_run_ends_with_3_a_report_and_its_trace(invoke: Invoke, bench_file: Write, tmp_path: Path) -> None:
    done = invoke("run", bench_file(WAIT, STUCK), "--trace", "trace.jsonl")
    (folder,) = Path("kb-runs").iterdir()
    assert (done.exit_code, done.stdout) == (3, "")
    end = events(tmp_path / "trace.jsonl")[-1]
    assert isinstance(end, CommandComplete)
    ns = f"{end.t_ps / 1000:g} ns"
    assert done.stderr == (
        f"error: deadlock at {ns}: 1 of 1 kernels cannot go on, and no event is scheduled; needs an event that lets "
        "one of them go on; who waits for whom:\n"
        f"  sip0.cube0.pe0: the kernel waits at small.py:13 since {ns} for a handle that no command in flight "
        "completes\n"
        "  missing: the end of the handle at small.py:13, because no command in flight completes it\n"
        f"  the files written so far are in {folder}\n"
    )
    progress = json.loads((folder / "progress.json").read_text())
    assert (progress["state"], progress["kernel_positions"]) == (
        "stuck",
        done.stderr.removeprefix("error: ").splitlines()[:-1],
    )
    (listed,) = json.loads(invoke("runs", "--json").stdout)
    assert (listed["state"], listed["latency_ps"]) == ("stuck", None)


def test_a_file_that_cannot_be_written_is_refused(invoke: Invoke) -> None:
    done = invoke("run", "gemm", *SMALL, "--trace", "nowhere/trace.jsonl")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: nowhere/trace.jsonl: got a file that cannot be written (No such file or directory), "
        "needs a file in a folder that is there; name one with --trace\n"
    )
    assert list(Path().iterdir()) == [], "a folder for runs that nobody has made"


def test_a_run_that_fails_leaves_the_folders_that_were_there_before(invoke: Invoke) -> None:
    Path("kept").mkdir()
    done = invoke("run", "gemm", *SMALL, "--out", "kept/new/runs", "--trace", "nowhere/trace.jsonl")
    assert (done.exit_code, list(Path().iterdir()), list(Path("kept").iterdir())) == (2, [Path("kept")], [])


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("-", "'-', needs a name, because kb neither reads nor writes a standard stream there; write ./- for"),
        ("a.pftrace", "a.pftrace, the name of a trace for Perfetto, needs another name; kb trace RUN -o a.pftrace"),
        ("a.pftrace.gz", "a.pftrace.gz, the name of a trace for Perfetto, needs another name; kb trace RUN -o"),
    ],
)
def test_a_name_that_promises_something_else_is_refused_before_the_run(
    invoke: Invoke, tmp_path: Path, name: str, got: str
) -> None:
    done = invoke("run", "gemm", *SMALL, "--trace", name)
    assert (done.exit_code, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert done.stderr.startswith(f"error: --trace: got {got}")


def test_shapes_are_many_runs(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n8,8,8\n")
    done = invoke("run", "gemm", "--shapes", "shapes.csv", "--trace", "trace.jsonl")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: --trace: got the many runs of --shapes, needs one run; leave out one of the two options\n"
    )
    assert not (tmp_path / "trace.jsonl").exists()
