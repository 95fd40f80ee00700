"""`--sanitize`: its output, its exit code, and that it changes nothing in the run folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Write = Callable[..., Path]
Invoke = Callable[..., Result]
GEMM = 'tl.wait(tl.composite("gemm", a, b, out=c))'
EARLY = 'd = tl.composite("gemm", a, b)\n    tl.store(c, d)'
LEAK = f"kernel.kept = [tl.load(a) for _ in range(3)]\n    {GEMM}"
LINE = 9
"""Of the kernel's first statement."""


@pytest.fixture
def early(bench_file: Write) -> Path:
    """A kernel that stores a product without waiting for it."""
    return bench_file(GEMM, EARLY)


def found_in(done: Result) -> Any:
    return json.loads(done.stdout)["sanitizer"]


def test_a_clean_run_says_so(invoke: Invoke, bench_file: Write) -> None:
    done = invoke("run", bench_file(), "--sanitize")
    assert done.exit_code == 0
    assert "sanitizer     clean\n" in done.stdout
    assert found_in(invoke("run", bench_file(), "--sanitize", "--json")) == {"findings": [], "leaks": []}


def test_findings_are_shown_only_when_asked_for(invoke: Invoke, early: Path) -> None:
    done = invoke("run", early)
    assert done.exit_code == 0
    assert "sanitizer" not in done.stdout
    assert "sanitizer" not in json.loads(invoke("run", early, "--json").stdout)


def test_a_missing_wait_names_both_lines_and_ends_with_1(invoke: Invoke, early: Path) -> None:
    done = invoke("run", early, "--sanitize")
    assert done.exit_code == 1
    assert "sanitizer     FAILED, 1 found\n" in done.stdout
    (text,) = [text for text in done.stdout.split("\n") if text.startswith("missing wait: ")]
    assert text.startswith(f"missing wait: small.py:{LINE + 1} (dma_write, sip0.cube0.pe0.pe_dma) reads from ")
    assert f" on what small.py:{LINE} (store, sip0.cube0.pe0.pe_fetch_store) writes until " in text
    assert "at sip0.cube0.pe0.pe_tcm + 0x" in text
    assert text.endswith(f"; let small.py:{LINE + 1} wait for small.py:{LINE}")
    assert ". To change first: " in done.stdout.splitlines()[-2]
    assert done.stdout.splitlines()[-1] == "FAILED: the sanitizer found 1"


def test_json_has_the_findings(invoke: Invoke, early: Path) -> None:
    done = invoke("run", early, "--sanitize", "--json")
    assert done.exit_code == 1
    (finding,) = found_in(done)["findings"]
    assert finding["hazard"] == "missing wait"
    assert (finding["first"]["line"], finding["second"]["line"]) == (f"small.py:{LINE}", f"small.py:{LINE + 1}")
    assert finding["early_ps"] == finding["done_ps"] - finding["second"]["t_start_ps"] > 0
    assert (finding["where"], finding["count"], finding["pes"]) == ("sip0.cube0.pe0.pe_tcm", 1, 1)


def test_a_leak_ends_with_1(invoke: Invoke, bench_file: Write) -> None:
    done = invoke("run", bench_file(GEMM, LEAK), "--sanitize", "--json")
    assert done.exit_code == 1
    assert found_in(done) == {
        "findings": [],
        "leaks": [
            {"line": f"small.py:{LINE}", "count": 3, "nbytes": 3 * 8 * 8 * 4, "programs": 1, "pes": ["sip0.cube0.pe0"]}
        ],
    }


def test_the_run_folder_is_the_same_without(invoke: Invoke, early: Path, tmp_path: Path) -> None:
    folders = [
        tmp_path / json.loads(invoke("run", early, "--json", "--out", tmp_path / out, *more).stdout)["run_dir"]
        for out, more in (("with", ["--sanitize"]), ("without", []))
    ]
    assert folders[0].name == folders[1].name
    assert (folders[0] / "run.json").read_bytes() == (folders[1] / "run.json").read_bytes()


def test_time_alone_is_enough_but_not_without_a_log(invoke: Invoke, early: Path) -> None:
    assert invoke("run", early, "--sanitize", "--no-verify", "--keep", "none").exit_code == 1
    done = invoke("run", early, "--sanitize", "--no-log")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == ("error: --sanitize: got no log (--no-log), needs one; leave out one of the two options\n")


def test_every_row_of_the_shapes_is_checked(invoke: Invoke, tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("M,N,K\n16,16,16\n32,16,16\n")
    args = ("run", "gemm", "--topology", "one_pe", "-p", "tile=16x16x16", "--shapes", shapes, "--sanitize")
    done = invoke(*args, "--json")
    assert (done.exit_code, [row["sanitizer"]["findings"] for row in json.loads(done.stdout)]) == (0, [[], []])
    assert invoke(*args).exit_code == 0


def test_verify_finds_the_same_in_the_folder(invoke: Invoke, early: Path) -> None:
    run = json.loads(invoke("run", early, "--sanitize", "--json").stdout)
    done = invoke("verify", run["run_dir"], "--sanitize", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["verified"]) == (1, True)
    assert found["sanitizer"] == {"findings": run["sanitizer"]["findings"]}
    done = invoke("verify", run["run_dir"], "--sanitize")
    assert done.exit_code == 1
    assert done.stdout.split("\n")[2].startswith("  missing wait: ")
    assert "sanitizer" not in json.loads(invoke("verify", run["run_dir"], "--json").stdout)


def test_verify_says_that_a_log_is_clean(invoke: Invoke, bench_file: Write) -> None:
    folder = json.loads(invoke("run", bench_file(), "--json").stdout)["run_dir"]
    done = invoke("verify", folder, "--sanitize")
    assert done.exit_code == 0
    assert done.stdout.split("\n")[2] == "  sanitizer: clean"


def test_two_launches_are_in_order(invoke: Invoke, bench_file: Write) -> None:
    again = "host.launch(kernel, a, b, c, pes=[0])\n        host.launch(kernel, a, b, c, pes=[1])"
    path = bench_file("host.launch(kernel, a, b, c, pes=[0])", again)
    done = invoke("run", path, "--sanitize", "--json")
    assert (done.exit_code, found_in(done)["findings"]) == (0, [])
    assert invoke("verify", json.loads(done.stdout)["run_dir"], "--sanitize").exit_code == 0
    together = bench_file("pes=[0]", "pes=[0, 1]")
    done = invoke("run", together, "--sanitize", "--json")
    assert (done.exit_code, [each["hazard"] for each in found_in(done)["findings"]]) == (1, ["write race"])


def test_races_are_looked_for_by_default_with_element_and_programs(invoke: Invoke, bench_file: Write) -> None:
    path = bench_file("pes=[0]", "pes=[0, 1]")
    done = invoke("run", path)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "FAILED: 1 race")
    assert "races         FAILED, 1 found\n" in done.stdout
    result = json.loads(invoke("run", path, "--json").stdout)
    (race,) = result["races"]["races"]
    assert (race["hazard"], race["element"], race["count"]) == ("write race", {"tensor": "c", "index": [0, 0]}, 2)
    programs = [race[side]["program"] for side in ("first", "second")]
    assert programs == [{"launch": 0, "ids": [n], "pe": f"sip0.cube0.pe{n}"} for n in range(2)]
    assert result["verified"] is True
    assert "sanitizer" not in result
    searched = json.loads(invoke("run", path, "--sanitize", "--json").stdout)
    assert searched["sanitizer"]["findings"] == [race]
    assert "races" not in searched
    verified = json.loads(invoke("verify", result["run_dir"], "--sanitize", "--json").stdout)
    for side in ("first", "second"):  # a folder does not say in which order PEs have the programs
        race[side]["program"]["ids"] = []
    assert verified["sanitizer"]["findings"] == [race]
    done = invoke("run", path, "--no-sanitize", "--json")
    assert (done.exit_code, {"races", "sanitizer"} & json.loads(done.stdout).keys()) == (0, set())


@pytest.mark.parametrize("options", [["--no-log"], ["--no-verify"], ["--keep", "none"]])
def test_races_need_a_log_and_no_verification(invoke: Invoke, bench_file: Write, options: list[str]) -> None:
    done = invoke("run", bench_file("pes=[0]", "pes=[0, 1]"), *options, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, "races" in found) == ((0, False) if options == ["--no-log"] else (1, True))


def test_a_race_of_one_shape_fails_all_of_them(invoke: Invoke, bench_file: Write, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("size\n4\n8\n")
    path = bench_file("pes=[0]", "pes=[0, 1] if p.size == 8 else [0]")
    done = invoke("run", path, "--shapes", tmp_path / "shapes.csv")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "FAILED: 1 of 2 shapes")
    assert "size=8: write race: " in done.stdout
