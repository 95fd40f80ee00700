"""`kb runs`: lists run folders, and prunes these and nothing else."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kb_cli.run.base.folder_owner import owner
from kb_cli.run.folders.run_list import telling_params

Invoke = Callable[..., Result]
Write = Callable[..., Path]
DAY_S = 86_400


@pytest.fixture
def three(invoke: Invoke, bench_file: Write, tmp_path: Path) -> list[str]:
    """Three run folders, the oldest first: 3, 2 and 1 days old."""
    folders = []
    for number, size in enumerate((2, 4, 8)):
        done = invoke("run", bench_file(), "-p", f"size={size}", "--topology", "one_pe", "--json")
        folder = json.loads(done.stdout)["run_dir"]
        stamp = (tmp_path / folder / "run.json").stat().st_mtime - (3 - number) * DAY_S
        os.utime(tmp_path / folder / "run.json", (stamp, stamp))
        folders.append(folder)
    return folders


def listed(invoke: Invoke) -> list[str]:
    return [each["folder"] for each in json.loads(invoke("runs", "--json").stdout)]


def test_runs_are_listed_with_the_newest_first(invoke: Invoke, three: list[str], tmp_path: Path) -> None:
    found = json.loads(invoke("runs", "--json").stdout)
    assert [each["folder"] for each in found] == three[::-1]
    first = found[0]
    assert (first["benchmark"], first["topology"], first["verified"], first["runs"]) == ("small", "one_pe", True, 1)
    run = json.loads((tmp_path / three[2] / "run.json").read_text())
    assert first["latency_ps"] == run["results"]["latency_ps"]
    assert first["nbytes"] == sum(file.stat().st_size for file in (tmp_path / three[2]).rglob("*") if file.is_file())
    assert [each["params"]["size"] for each in found] == [8, 4, 2]
    text = invoke("runs").stdout
    assert all(folder in text for folder in three)
    assert [size in text for size in ("size=2", "size=4", "size=8")] == [True] * 3, "the parameter that differs"
    assert text.splitlines()[-1].startswith("3 run folders, ")


def test_parameters_that_do_not_differ_are_left_out() -> None:
    tile = {"tile": [8, 8, 8], "M": 64, "dtype": "f16"}
    runs = [("gemm", tile), ("gemm", {**tile, "tile": None}), ("softmax", {"M": 8}), ("gemm", {})]
    assert telling_params(runs) == ["tile=[8,8,8]", "tile=none", "M=8", ""]


def test_runs_of_which_no_parameter_differs_show_all_that_have_a_value() -> None:
    flash = ("attention", {"tokens": 256, "causal": True, "block": None})
    of_flash = "tokens=256 causal=true"
    assert telling_params([flash, ("softmax", {"M": 8}), flash]) == [of_flash, "M=8", of_flash]


def test_a_run_that_lacks_a_parameter_differs_from_one_that_has_it() -> None:
    old, new = ("gemm", {"M": 8}), ("gemm", {"M": 8, "operands": "one_slice"})
    assert telling_params([old, new]) == ["", "operands=one_slice"]
    assert telling_params([new, old, new]) == ["operands=one_slice", "", "operands=one_slice"]
    every = "M=8 operands=one_slice"
    assert telling_params([new, ("gemm", {}), new]) == [every, "", every], "an interrupted run has no parameters"


def test_rows_of_a_shapes_file_are_one_folder(invoke: Invoke, bench_file: Write, tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("size\n2\n4\n")
    assert invoke("run", bench_file(), "--shapes", "sizes.csv", "--topology", "one_pe").exit_code == 0
    (found,) = json.loads(invoke("runs", "--json").stdout)
    assert (found["runs"], found["verified"], found["latency_ps"] > 0) == (2, True, True)
    pruned = json.loads(invoke("runs", "--prune", "--keep", "0", "--json").stdout)
    assert [each["folder"] for each in pruned["removed"]] == [found["folder"]]
    assert listed(invoke) == []


def test_prune_keeps_the_newest(invoke: Invoke, three: list[str]) -> None:
    dry = invoke("runs", "--prune", "--keep", "1", "--dry-run")
    assert dry.stdout.splitlines()[-1].startswith("would remove 2 run folders, ")
    assert listed(invoke) == three[::-1]
    done = invoke("runs", "--prune", "--keep", "1")
    assert [f"removed {folder} (" in done.stdout for folder in three] == [True, True, False]
    assert listed(invoke) == [three[2]]


def test_prune_by_age_and_by_both(invoke: Invoke, three: list[str]) -> None:
    both = json.loads(invoke("runs", "--prune", "--keep", "2", "--older", "0", "--dry-run", "--json").stdout)
    assert [each["folder"] for each in both["removed"]] == [three[0]]
    assert both["dry_run"] is True
    invoke("runs", "--prune", "--older", "1.5")
    assert listed(invoke) == [three[2]]


def test_a_folder_without_a_run_stays(invoke: Invoke, three: list[str], tmp_path: Path) -> None:
    out = tmp_path / "kb-runs"
    (out / "notes").mkdir()
    (out / "notes" / "run.json").write_text('{"format": "other", "version": 1}')
    (out / "picture.svg").write_text("x")
    (out / "forged").mkdir()
    (out / "forged" / "run.json").write_text("{}")
    (out / ".hidden").mkdir()
    (out / "mine-interrupted").mkdir()
    (out / "mine-interrupted" / "data").write_text("x")
    (out / "link").symlink_to(out / "notes")
    (tmp_path / three[0] / "my-notes.txt").write_text("keep me")
    (tmp_path / three[1] / "log" / "way-out").symlink_to(tmp_path)
    done = invoke("runs", "--prune", "--keep", "0")
    assert done.exit_code == 0
    assert f"{three[0]}: got my-notes.txt, which no run wrote; it stays" in done.stdout
    left = {
        "notes",
        "picture.svg",
        "forged",
        ".hidden",
        "mine-interrupted",
        "link",
        *(Path(each).name for each in three[:2]),
    }
    assert {each.name for each in out.iterdir()} == left


def test_an_interrupted_run_is_listed_and_pruned(invoke: Invoke, three: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "kb-runs" / "small-0123456789ab-interrupted"
    (folder / "log").mkdir(parents=True)
    progress = {"format": "kernbench-progress", "version": 1, "state": "interrupted"}
    (folder / "progress.json").write_text(json.dumps(progress))
    (first, *_) = json.loads(invoke("runs", "--json").stdout)
    assert (first["state"], first["benchmark"], first["latency_ps"]) == ("interrupted", "small", None)
    assert "interrupted" in invoke("runs").stdout
    invoke("runs", "--prune", "--keep", "0")
    assert not folder.exists()


def test_leftovers_of_killed_runs_are_pruned_at_any_age(invoke: Invoke, three: list[str], tmp_path: Path) -> None:
    """A folder that was in the making, one that was replaced, and one whose replacement never came."""
    out, gone = tmp_path / "kb-runs", owner().replace(f"{os.getpid()}-", f"{1 << 30}-", 1)
    name, lost = Path(three[0]).name, Path(three[1]).name
    (out / f".new.{gone}-01234567-new").mkdir()
    (out / f".new.{gone}-01234567-new" / "run.json").write_text("x" * 10)
    (out / f".{name}.{gone}-01234567-old").mkdir()
    (out / lost).rename(out / f".{lost}.{gone}-01234567-old")
    (out / f".new.{owner()}-01234567-new").mkdir()
    would = json.loads(invoke("runs", "--prune", "--keep", "9", "--dry-run", "--json").stdout)
    killed = [f"kb-runs/.{name}.{gone}-01234567-old", f"kb-runs/.new.{gone}-01234567-new"]
    assert (would["killed"], would["removed"], would["nbytes"]) == (sorted(killed), [], 10)
    assert len(list(out.iterdir())) == 6
    done = invoke("runs", "--prune", "--keep", "9")
    assert f"removed {killed[1]}, which a killed run left" in done.stdout
    assert "removed 2 run folders, 10 B" in done.stdout
    assert {each.name for each in out.iterdir()} == {
        f".new.{owner()}-01234567-new",
        *(Path(each).name for each in three),
    }


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["nowhere"], "nowhere: got no such folder, needs a folder of run folders; kb run makes kb-runs"),
        (["small.py"], "small.py: got a file, needs a folder of run folders; kb run makes kb-runs"),
        (["--prune"], "--prune: got neither --keep N nor --older DAYS, needs one of them; --keep 0 means all"),
        (["--keep", "1"], "kb runs: got --keep, --older or --dry-run alone, needs --prune beside it; add --prune"),
        (["--dry-run"], "kb runs: got --keep, --older or --dry-run alone, needs --prune beside it; add --prune"),
        (["--prune", "--keep", "-1"], "Invalid value for '--keep'"),
        (["--prune", "--older", "x"], "Invalid value for '--older'"),
    ],
)
def test_wrong_options_are_refused(
    invoke: Invoke, three: list[str], bench_file: Write, options: list[str], text: str
) -> None:
    done = invoke("runs", *options)
    assert done.exit_code == 2
    assert text in done.stderr
    assert len(listed(invoke)) == 3


def test_an_empty_folder_has_no_runs(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "kb-runs").mkdir()
    assert invoke("runs").stdout == "no run folders\n"
    assert invoke("runs", "--json").stdout == "[]\n"
