"""A run whose log no memory holds is refused when its commands are issued."""

import json
from pathlib import Path

import pytest

from kb_cli.run.base.progress import RunProgress
from kb_cli.run.observe import log_room
from kb_cli.run.observe.log_room import COMMAND_NBYTES, RECORD_NBYTES
from kb_cli.run.simulation import read_back
from kb_dataexec.analysis import NoWindowsError

PRODUCT = ("run", "gemm", "--topology", "one_pe", *(part for size in "MNK" for part in ("-p", f"{size}=64")))
TILES = ("-p", "tile=32x32x32")
N_RECORDS = 8 * 4 + 4 * 2
"""Of eight tiles: two reads, a fetch and a product each. Four are the last of an output: a store and a write."""


def memory_for(records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_room, "available_nbytes", lambda: records * RECORD_NBYTES)


def test_a_log_beyond_the_memory_is_refused(invoke, monkeypatch):
    memory_for(N_RECORDS - 1, monkeypatch)
    done = invoke(*PRODUCT, *TILES)
    assert done.exit_code == 2
    assert f"gemm on one_pe: got {N_RECORDS} records of the op log or more" in done.stderr
    assert f"needs at most the {N_RECORDS - 1} that fit the" in done.stderr
    assert done.stderr.rstrip().endswith(
        "run with --no-verify, or with --verify sample where the benchmark states products(), which read the log in "
        "parts, or with --no-log, or choose smaller sizes"
    )


@pytest.mark.parametrize(
    ("n_records", "options"),
    [
        pytest.param(N_RECORDS, [], id="a log that just fits"),
        pytest.param(0, ["--no-log"], id="no log"),
        pytest.param(None, [], id="a system that states no memory"),
    ],
)
def test_runs_that_fit(n_records, options, invoke, monkeypatch):
    if n_records is None:
        monkeypatch.setattr(log_room, "available_nbytes", lambda: None)
    else:
        memory_for(n_records, monkeypatch)
    assert invoke(*PRODUCT, *TILES, *options).exit_code == 0


def test_a_log_that_is_read_in_parts_has_room_for_its_commands(invoke, monkeypatch):
    monkeypatch.setattr(log_room, "available_nbytes", lambda: COMMAND_NBYTES)
    for options in (["--no-verify"], ["--verify", "sample"]):
        assert invoke(*PRODUCT, *TILES, *options).exit_code == 0
    done = invoke("run", "softmax", "--topology", "one_pe", "--no-verify")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "softmax on one_pe: got 2 commands of the op log or more, needs at most the 1 that fit the" in done.stderr


def test_a_log_in_memory_is_read_whole(invoke, monkeypatch):
    memory_for(N_RECORDS - 1, monkeypatch)
    done = invoke(*PRODUCT, *TILES, "--no-verify", "--keep", "none")
    assert f"gemm on one_pe: got {N_RECORDS} records of the op log or more" in done.stderr
    assert done.stderr.rstrip().endswith("run with --no-log for the time alone, or choose smaller sizes")


def test_the_error_of_rows_beyond_the_memory_names_no_unfinished_folder(invoke, monkeypatch):
    monkeypatch.setattr("kb_dataexec.log.reader._memory_nbytes", lambda: 8)
    done = invoke(*PRODUCT, *TILES)
    assert done.exit_code == 2
    assert done.stderr.endswith(
        "error: gemm on one_pe: got an op log of 0.0 GiB of rows or more, needs at most half of the 0.0 GiB of this "
        "machine's memory; run with --no-log for the time alone, or choose smaller sizes\n"
    )


def test_rows_that_repeat_are_written_as_formulas(invoke):
    done = invoke(*PRODUCT, *TILES, "--json")
    log = Path(json.loads(done.stdout)["run_dir"]) / "log"
    assert [path.name for path in sorted(log.iterdir())] == [
        "formulas-000000.z", "immediates.bin", "manifest.json", "strings.jsonl",
    ]  # fmt: skip


def test_a_log_read_in_parts_gives_the_figures_of_one_read_whole(invoke, monkeypatch):
    def figures(part: bool) -> tuple[dict[str, object], bytes]:
        monkeypatch.setattr(read_back, "MOST_WHOLE", 0 if part else 1 << 20)
        result = json.loads(invoke(*PRODUCT, *TILES, "--no-verify", "--json").stdout)
        del result["wall_s"]
        return result, (Path(result["run_dir"]) / "where.json").read_bytes()

    assert figures(part=True) == figures(part=False)


def test_reading_and_following_a_log_in_parts_show_progress(invoke, monkeypatch):
    shown, begin = [], RunProgress.begin

    def begun(progress, phase, what=""):
        shown.append(what)
        begin(progress, phase, what)

    monkeypatch.setattr(read_back, "MOST_WHOLE", 0)
    monkeypatch.setattr(RunProgress, "begin", begun)
    monkeypatch.setattr(RunProgress, "count", lambda _, *counts: shown.append(counts))
    assert invoke(*PRODUCT, *TILES, "--no-verify").exit_code == 0
    every = (N_RECORDS, N_RECORDS)
    at = shown.index(every)
    assert shown[at - 1 : at + 3] == ["reading the log", every, "following the critical path", (0, N_RECORDS)]


def test_reading_all_rows_together_is_noted(invoke, monkeypatch):
    def cannot(*_):
        raise NoWindowsError("a cause that was not kept")

    monkeypatch.setattr(read_back, "MOST_WHOLE", 0)
    expected = json.loads(invoke(*PRODUCT, *TILES, "--no-verify", "--json").stdout)
    monkeypatch.setattr(read_back, "where_in_windows", cannot)
    done = invoke(*PRODUCT, *TILES, "--no-verify", "--json")
    assert done.stderr.splitlines()[-1] == (
        f"All {N_RECORDS} records of the log are read into memory together to follow the critical path, because a part "
        "of the log has a cause that was not kept."
    )
    assert json.loads(done.stdout)["log_digest"] == expected["log_digest"]
