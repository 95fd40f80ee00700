"""`kb report`: what it says adds up, its page is safe to open, and bad input ends in a sentence."""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kb_cli.report.data.run_report import line_number
from kb_cli.run.records.manifest_check import claims
from kb_cli.run.records.run_json import write_run
from kb_dataexec import OpLog, read_log
from kb_dataexec.log import write_log

Invoke = Callable[..., Result]
SMALL = ["-p", "M=72", "-p", "N=40", "-p", "K=56", "-p", "tile=16x16x24"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def folder(invoke: Invoke, made: Path, tmp_path: Path) -> Path:
    """A run on eight PEs, whose sizes do not divide into tiles; a copy, which a test may change."""
    if not list(made.glob("gemm-*")):
        assert invoke("run", "gemm", *SMALL, "--out", made).exit_code == 0
    return Path(shutil.copytree(next(made.glob("gemm-*")), tmp_path / "x"))


def reported(invoke: Invoke, folder: Path) -> dict[str, Any]:
    done = invoke("report", folder, "--json", "--levers", 0)
    assert (done.exit_code, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def page_of(invoke: Invoke, folder: Path) -> str:
    done = invoke("report", folder, "-o", "x.html", "--levers", 0)
    assert (done.exit_code, done.stderr) == (0, "")
    return Path("x.html").read_text(encoding="utf-8")


def error(invoke: Invoke, *args: object) -> str:
    done = invoke("report", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    return done.stderr


def test_the_speed_of_light_belongs_to_the_limit_of_the_roofline(invoke: Invoke, tmp_path: Path) -> None:
    ran = invoke("run", "vector_add", "-p", "N=65536", "-p", "dtype=f32", "--out", tmp_path / "adds", "--json")
    latency_ns = json.loads(ran.stdout)["latency_ps"] / 1000
    share = 3 * 65536 * 4 / 819.2 / latency_ns  # two arrays come and one goes, at 8 HBMs of 102.4 GB/s
    expected = f"{share * 100:.1f} % of 819.2 GB/s of HBM"
    (folder,) = (tmp_path / "adds").iterdir()
    assert reported(invoke, folder)["speed_of_light"] == expected
    page = Tags(page_of(invoke, folder))
    assert page.texts[page.texts.index("speed of light") + 1] == expected
    sizes = ["-p", "K=1024", "-p", "M=1024", "-p", "N=1024"]
    assert (
        invoke("run", "gemm", *sizes, "--no-verify", "--levers", "none", "--out", tmp_path / "products").exit_code == 0
    )
    (folder,) = (tmp_path / "products").iterdir()
    found = reported(invoke, folder)
    shares = found["achieved_flops"] / 65.536e12  # 8 arrays of 64 x 64 at 1 GHz, two operations each
    assert found["speed_of_light"] == f"{shares * 100:.1f} % of 65.54 TFLOP/s"


def resealed(folder: Path, **changes: object) -> None:
    """Let the run.json of *folder* claim what is there now."""
    run = json.loads((folder / "run.json").read_text())
    write_run(folder, {**run, **changes, "files": claims(folder)})


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_path_lines_and_pes_add_up_to_the_latency(invoke: Invoke, folder: Path) -> None:
    found = reported(invoke, folder)
    results = json.loads((folder / "run.json").read_text())["results"]
    assert found["latency_ps"] == found["total_ps"] == results["latency_ps"] > 0
    assert sum(each["ps"] for each in found["path"]) == found["total_ps"]
    assert sum(line["ps"] for line in found["lines"]) == found["total_ps"]
    assert sorted(pe for each in found["pes"] for pe in each["pes"]) == [f"sip0.cube0.pe{pe}" for pe in range(8)]
    for each in found["pes"]:
        assert sum(share["ps"] for share in each["shares"]) == found["total_ps"]
    assert (found["path"], found["bounded_by"]) == (results["where"], results["bounded_by"])
    assert found["sentence"].startswith(results["bounded_by"])
    assert found["log_digest"] == json.loads((folder / "run.json").read_text())["log_digest"]


def test_a_line_has_its_text_and_its_point_the_operations_of_the_run(invoke: Invoke, folder: Path) -> None:
    found = reported(invoke, folder)
    (line,) = (each for each in found["lines"] if each["number"])
    text = (folder / "bench.py").read_text().splitlines()[line["number"] - 1]
    assert line["text"] == text.strip()
    assert "composite" in text
    run, point = found["roofline"]["points"]
    assert point["line"] == line["line"]
    assert run["flops"] == point["flops"] == 2 * 72 * 40 * 56
    assert {space: nbytes for space, nbytes in run["nbytes"].items() if nbytes} == point["nbytes"]
    assert [each["dtypes"] for each in found["roofline"]["peaks"]] == [["f16"]], "the dtype of the product alone"
    assert found["roofline"]["peaks"][0]["flops"] == 65.536e12


def test_the_terminal_has_the_same_numbers(invoke: Invoke, folder: Path) -> None:
    done = invoke("report", folder, "--levers", 0)
    assert (done.exit_code, done.stderr) == (0, "")
    found = reported(invoke, folder)
    assert found["sentence"] in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    for each in found["path"][:3]:
        assert [each["block"], *each["what"].split(), f"{each['share'] * 100:.1f}", "%"] in [
            row[: 3 + len(each["what"].split())] for row in rows
        ]


def test_kb_run_ends_with_the_table_and_the_sentence(invoke: Invoke) -> None:
    done = invoke("run", "gemm", *SMALL)
    *_, sentence = done.stdout.split("\n\n")
    assert "\n\nwhere the time went   what" in done.stdout
    assert json.loads(next(Path("kb-runs").glob("gemm-*/run.json")).read_text())["results"]["bounded_by"] in sentence
    assert " of the time" in sentence


def test_without_a_log_there_is_no_table_and_no_cost(invoke: Invoke) -> None:
    done = invoke("run", "gemm", *SMALL, "--no-log")
    assert "where the time went" not in done.stdout
    assert done.stdout.rstrip().endswith("the cost of that is not recorded.")


def test_the_page_is_one_file_that_asks_nobody_and_runs_nothing(invoke: Invoke, folder: Path) -> None:
    page = page_of(invoke, folder)
    tags = Tags(page)
    names = {tag for tag, _ in tags.tags}
    assert names.isdisjoint({"script", "link", "iframe", "object", "embed", "base", "form", "a"})
    assert not any(name.startswith("on") for _, attributes in tags.tags for name in attributes)
    for tag, attributes in tags.tags:
        assert attributes.get("href") is None
        assert (attributes.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,"), tag
    assert page.count("url(") == page.count("url(data:image/png;base64,")
    assert [text for text in tags.texts if text in TITLES] == TITLES
    (policy,) = (each["content"] for tag, each in tags.tags if "http-equiv" in each)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


TITLES = ["Where the time went", "Speed of light", "Lines", "Roofline", "Lanes", "PEs", "Configuration"]


def levers_of(invoke: Invoke, folder: Path, *more: object) -> list[dict[str, Any]] | None:
    done = invoke("report", folder, "--json", *more)
    assert (done.exit_code, done.stderr) == (0, "")
    found: list[dict[str, Any]] | None = json.loads(done.stdout).get("levers")
    return found


def test_the_levers_of_a_bundled_benchmark_are_measured_and_ranked(invoke: Invoke, folder: Path) -> None:
    found = levers_of(invoke, folder)
    assert found is not None
    assert len(found) > 1
    gains = [lever["gain"] for lever in found]
    assert gains == sorted(gains, reverse=True)
    assert all(lever["latency_ps"] > 0 for lever in found)
    (lever,) = levers_of(invoke, folder, "--levers", 1) or []
    assert lever in found
    assert levers_of(invoke, folder, "--levers", 0) is None
    assert levers_of(invoke, folder, "--levers", "none") is None
    assert f"{lever['name']}: " in invoke("report", folder).stdout
    assert f"{lever['name']}: " not in invoke("report", folder, "--levers", 0).stdout
    assert invoke("report", folder, "-o", "x.html").exit_code == 0
    texts = Tags(Path("x.html").read_text()).texts
    assert texts.index("Speed of light") < texts.index("Levers") < texts.index("Lines")
    for wrong in (-1, "all"):
        refused = invoke("report", folder, "--levers", wrong)
        assert refused.exit_code == 2
        assert f"got '{wrong}', needs a number from 0 or none" in refused.stderr


def test_no_lever_of_a_run_that_took_long_is_measured_without_being_asked(
    invoke: Invoke, folder: Path, tmp_path: Path
) -> None:
    mine = shutil.copytree(folder, tmp_path / "mine")
    (mine / "levers.json").unlink(missing_ok=True)
    wall = mine / "wall.json"
    wall.write_text(json.dumps({**json.loads(wall.read_text()), "timing": 2.1}))
    assert {each.get("latency_ps") for each in levers_of(invoke, mine) or []} == {None}
    wall.write_text("no JSON")
    assert any(each.get("latency_ps") for each in levers_of(invoke, mine) or [])


def test_a_benchmark_of_somebody_is_not_run_unless_levers_are_asked_for(
    invoke: Invoke, folder: Path, bench_file: Callable[..., Path]
) -> None:
    path = bench_file()
    path.write_text(path.read_text() + '\nfrom pathlib import Path\nPath("ran").write_text("x")\n')
    run_dir = json.loads(invoke("run", "small.py", "--json").stdout)["run_dir"]
    with (folder / "bench.py").open("a") as file:
        file.write('from pathlib import Path\nPath("ran").write_text("x")\n')
    own = {"sha256": hashlib.sha256((folder / "bench.py").read_bytes()).hexdigest()}
    resealed(folder, benchmark=json.loads((folder / "run.json").read_text())["benchmark"] | own)
    for each in (run_dir, folder):
        Path("ran").unlink(missing_ok=True)
        assert levers_of(invoke, each) is None
        assert not Path("ran").exists()
        assert levers_of(invoke, each, "--levers", 1) is not None
        assert Path("ran").exists()


def test_a_bundled_benchmark_imports_nothing_from_the_folder(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert levers_of(invoke, folder)
    assert str(folder.resolve()) not in sys.path


def test_levers_that_nobody_asked_for_end_in_a_note(invoke: Invoke, folder: Path) -> None:
    usage = folder / "usage.json"
    usage.write_text("[]")
    resealed(folder)
    done = invoke("report", folder, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    note = json.loads(done.stdout)["notes"][-1]
    assert note.startswith(f"{folder}: got no levers: {usage}: got JSON of another form")
    assert "levers" not in json.loads(done.stdout)
    assert error(invoke, folder, "--levers", 1).startswith(f"error: {usage}: got JSON of another form")


def test_equal_runs_give_equal_bytes(invoke: Invoke, folder: Path) -> None:
    assert page_of(invoke, folder) == page_of(invoke, folder)


def test_markup_of_a_user_stays_text(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    name = "<img src=x onerror=alert(1)>"
    bench_file(
        "    Params = Params\n", f"    Params = Params\n    name = '{name}'\n",
        "out=c))", "out=c))  # </td><script>alert(2)</script>\x1b[31m",
    )  # fmt: skip
    run_dir = json.loads(invoke("run", "small.py", "-p", "label=<script>alert(3)</script>", "--json").stdout)["run_dir"]
    tags = Tags(page_of(invoke, Path(run_dir)))
    assert all(each.get("src", "").startswith("data:") for tag, each in tags.tags if tag == "img")
    assert "script" not in {tag for tag, _ in tags.tags}
    texts = "\n".join(tags.texts)
    assert name in texts
    assert "</td><script>alert(2)</script>\\x1b[31m" in texts
    assert "label=<script>alert(3)</script>" in texts


def test_a_row_of_a_shapes_run_is_a_run(invoke: Invoke) -> None:
    Path("shapes.csv").write_text("layer,M,N,K\na,16,16,16\nb,32,16,16\n")
    invoke("run", "gemm", "--shapes", "shapes.csv")
    (folder,) = Path("kb-runs").glob("gemm-*")
    assert reported(invoke, folder / "0001")["params"]["M"] == 32
    assert error(invoke, folder) == (
        f"error: {folder}: got the folder of several runs, needs the folder of one run; "
        f"name a row, such as {folder / '0000'}\n"
    )


def test_a_run_whose_data_was_not_kept_is_reported_from_where_json(invoke: Invoke, folder: Path) -> None:
    run_dir = Path(json.loads(invoke("run", "gemm", *SMALL, "--keep", "none", "--json").stdout)["run_dir"])
    assert not (run_dir / "log").exists()
    kept, dropped = reported(invoke, folder), reported(invoke, run_dir)
    for name in ("sentence", "path", "blocks", "pes", "total_ps"):
        assert kept[name] == dropped[name]
    assert dropped["notes"][-1] == (
        f"{run_dir}: got a run whose op log was not kept (--keep none): no lanes, and one roofline point"
    )
    assert "Lanes" not in Tags(page_of(invoke, run_dir)).texts


def test_a_log_that_was_cut_off_says_up_to_when_it_goes(invoke: Invoke, folder: Path) -> None:
    (folder / "log" / "manifest.json").unlink()
    resealed(folder)
    latency_ns = json.loads((folder / "run.json").read_text())["results"]["latency_ns"]
    (note,) = (each for each in reported(invoke, folder)["notes"] if "cut off" in each)
    end = float(re.search(r"goes up to ([\d.]+) ns", note)[1])
    assert note == f"{folder}: got a log that was cut off: it goes up to {end} ns, and the rest is missing"
    assert 0 < end <= latency_ns


def test_a_folder_that_is_no_run_is_refused_as_kb_verify_does(invoke: Invoke, folder: Path) -> None:
    assert error(invoke, "nowhere") == (
        "error: nowhere: got no such folder, needs the folder of a run; kb run prints its name\n"
    )
    Path("empty").mkdir()
    assert error(invoke, "empty") == (
        "error: empty: got a folder without run.json, needs the folder of a run; kb run prints its name\n"
    )
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "version": 3}))
    assert error(invoke, folder) == (
        f"error: {folder}/run.json: got format 'kernbench-run' version 3, needs kernbench-run version 2; "
        "run the benchmark again\n"
    )


def test_a_run_without_a_log_is_refused(invoke: Invoke) -> None:
    run_dir = json.loads(invoke("run", "gemm", *SMALL, "--no-log", "--json").stdout)["run_dir"]
    assert error(invoke, run_dir) == (
        f"error: {run_dir}: got a run without an op log, needs one; run it again without --no-log\n"
    )


@pytest.mark.parametrize(("name", "got"), [("x.json", ".json"), ("x", "'x'"), ("x.pftrace.gz", ".gz")])
def test_a_page_has_the_name_of_a_page(invoke: Invoke, name: str, got: str) -> None:
    assert error(invoke, "nowhere", "-o", name) == f"error: -o: got {got}, needs .html\n"


def test_a_page_that_cannot_be_written_leaves_nothing(invoke: Invoke, folder: Path) -> None:
    done = invoke("report", folder, "-o", "nowhere/x.html")
    assert done.exit_code == 2
    assert "nowhere/" in done.stderr
    assert list(Path().glob("nowhere")) == []


@pytest.mark.parametrize("name", ["where.json", "bench.py", "topology.yaml"])
def test_a_file_that_the_run_did_not_write_is_refused(invoke: Invoke, folder: Path, name: str) -> None:
    with (folder / name).open("a") as file:
        file.write("\n")
    assert error(invoke, folder) == (
        f"error: {folder / name}: got other bytes than the run wrote, "
        "needs the bytes that run.json lists; run it again\n"
    )


def test_other_results_than_the_run_wrote_are_refused(invoke: Invoke, folder: Path) -> None:
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "seed": 1}))
    assert error(invoke, folder) == (
        f"error: {folder}/run.json: got other content than the run wrote, needs the run's own; run it again\n"
    )


def test_a_damaged_where_json_is_refused(invoke: Invoke, folder: Path) -> None:
    (folder / "where.json").write_text('{"launches": 1, "missing": []}')
    resealed(folder)
    assert error(invoke, folder).startswith(f"error: {folder / 'where.json'}: got JSON of another form (")


def test_a_folder_of_an_older_kb_is_reported_from_its_log(invoke: Invoke, folder: Path) -> None:
    before = reported(invoke, folder)
    (folder / "where.json").unlink()
    resealed(folder)
    assert reported(invoke, folder) == before


def as_version_1(folder: Path) -> str:
    """Make the log of *folder* one of version 1, which has no further tables. Returns its digest."""
    log = read_log(folder / "log")
    old = OpLog(log.ops, log.operands, log.strings, log.immediates, version=1)
    shutil.rmtree(folder / "log")
    write_log(folder / "log", log)
    for table in log.tables:
        for path in (folder / "log").glob(f"{table}-*"):
            path.unlink()
    manifest = json.loads((folder / "log" / "manifest.json").read_text())
    manifest = {name: count for name, count in manifest.items() if name not in log.tables}
    manifest |= {"version": 1, "digest": old.digest}
    (folder / "log" / "manifest.json").write_text(json.dumps(manifest))
    return old.digest


def test_a_log_of_version_1_names_the_parts_it_lacks(invoke: Invoke, folder: Path) -> None:
    before = reported(invoke, folder)
    resealed(folder, log_digest=as_version_1(folder))
    assert [reported(invoke, folder)[name] for name in ("path", "pes", "notes")] == [
        before[name] for name in ("path", "pes", "notes")
    ]
    (folder / "where.json").unlink()
    resealed(folder)
    found = reported(invoke, folder)
    without = "got a log without commands, dispatches, transfers, kernels, messages"
    note = f"{without}, so causes from these tables are not separated"
    assert found["notes"] == [f"{folder}/log: {note}", *before["notes"]]
    done = invoke("trace", folder, "-o", "x.pftrace")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == [
        f"{folder}: got a log without the table kernels, so the critical path is left out",
        f"{folder}: got a log without the table transfers, so the service of memories is left out",
    ]
    assert (found["path"], found["latency_ps"]) == ([], before["latency_ps"])
    assert found["bounded_by"] == json.loads((folder / "run.json").read_text())["results"]["bounded_by"]


def test_a_line_of_another_file_has_no_number() -> None:
    assert line_number("gemm.py:29", "gemm.py", 40) == 29
    assert line_number("gemm.py:41", "gemm.py", 40) == 0
    assert line_number("other.py:29", "gemm.py", 40) == line_number("", "gemm.py", 40) == 0
