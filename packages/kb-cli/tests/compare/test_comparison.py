"""Comparisons of runs: differences that add up, lines through a diff, and what blocks did and cost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kb_cli.compare.blocks import BlockChange, PeChange
from kb_cli.compare.comparison import LineMatch, RunComparison, compare, row_changes
from kb_cli.compare.configuration import ConfigurationChange
from kb_cli.compare.side import Side, read_side
from kb_cli.report.tables.compare_tables import comparison_parts
from kb_cli.terminal.output import as_text
from kb_dataexec.analysis import LaunchWhere, PeWhere, Where, WhereRow
from kb_messages import KbError

Invoke = Callable[..., Result]
Rows = dict[tuple[str, str, str, str], int]


def launch(rows: Rows, busy: dict[str, int] | None = None, start_ps: int = 100, number: int = 0) -> LaunchWhere:
    listed = [
        WhereRow(line=line, block=block, what=what, via=via, ps=ps, segments=1)
        for (line, block, what, via), ps in rows.items()
    ]
    total = sum(rows.values())
    outside = {name: sum(ps for key, ps in rows.items() if key[3] == name) for name in ("launch", "answer")}
    end_ps = start_ps + total
    return LaunchWhere(
        launch=number,
        start_ps=start_ps,
        kernels_start_ps=start_ps + outside["launch"],
        kernels_end_ps=end_ps - outside["answer"],
        end_ps=end_ps,
        rows=listed,
        pes=[PeWhere(pes=["pe0", "pe1"], start_ps=start_ps, end_ps=end_ps, rows=listed)],
        busy=busy or {},
        hidden={},
        ties=0,
    )


@pytest.fixture
def side(invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path) -> Callable[..., Side]:
    """A run of the small benchmark, with a hand-made answer to where its time went."""

    def make(*launches: LaunchWhere, options: tuple[str, ...] = (), replace: tuple[str, ...] = ()) -> Side:
        out = tmp_path / f"out{len(list(tmp_path.glob('out*')))}"
        always = ("--topology", "one_pe", "--levers", "none", "--out", out)
        assert invoke("run", bench_file(*replace), *always, *options).exit_code == 0
        found = read_side(next(out.iterdir()))
        return found._replace(where=Where(launches=list(launches), missing=[])) if launches else found

    return make


def test_the_differences_of_rows_add_up_and_blocks_name_their_work(side: Callable[..., Side]) -> None:
    gemm, hbm = ("small.py:9", "pe_gemm", "steps", "data"), ("small.py:9", "hbm", "bytes", "memory")
    before = side(
        launch({gemm: 1_000, hbm: 9_000, ("", "host", "", "launch"): 50}, {"pe_gemm": 6_000, "hbm": 9_500}),
        launch({gemm: 500}, {"pe_gemm": 500}, number=1),
    )
    after = before._replace(
        where=Where(
            launches=[launch({gemm: 5_501, hbm: 3_000}, {"pe_gemm": 6_500, "hbm": 4_750}, start_ps=7)], missing=[]
        )
    )
    found = compare(before, after)
    assert found.whole_ps == (10_550, 8_501)
    assert [(each.block, each.change_ps) for each in found.rows] == [("hbm", -6_000), ("pe_gemm", 4_001), ("host", -50)]
    assert sum(each.change_ps for each in found.rows) == 8_501 - 10_550
    assert found.blocks[0].busy_ps == (9_500, 4_750)
    assert found.blocks[1].path_ps == (1_500, 5_501)
    assert found.sentences == [
        "HBM works 4.750 ns less, and 6.000 ns less of it is on the path.",
        "The work of GEMM is the same, but 4.001 ns more of it is on the path: it was hidden behind HBM.",
    ]
    assert [(each.pes, each.change_ps) for each in found.pes] == [
        (["pe0", "pe1"], {"hbm": -6_000, "pe_gemm": 4_001, "host": -50})
    ]
    back = compare(after, before)
    assert [each.change_ps for each in back.rows] == [-each.change_ps for each in found.rows]
    assert back.blocks[1].sentence(back.blocks) == (
        "The work of GEMM is the same, but 4.001 ns less of it is on the path: it is hidden behind HBM now."
    )


def test_a_run_against_itself_is_empty(side: Callable[..., Side]) -> None:
    one = side(launch({("small.py:9", "hbm", "bytes", "memory"): 9_000}, {"hbm": 9_500}))
    found = compare(one, one)
    assert found.same
    assert (found.configuration, found.rows, found.blocks, found.pes, found.sentences) == ([], [], [], [], [])
    assert found.change_ps == 0
    assert next(iter(comparison_parts(found))) == "The same run: the digests of the two logs are equal."
    assert len(list(comparison_parts(found))) == 3


def test_equal_logs_of_two_chips_are_not_called_the_same_run(side: Callable[..., Side], tmp_path: Path) -> None:
    before = side()
    chip = tmp_path / "other.yaml"
    chip.write_text(before.topology.source.text.replace("name: one_pe", "name: other"))
    after = side(options=("--topology", str(chip)))
    found = compare(before, after)
    assert found.same
    assert list(comparison_parts(found))[:3] == [
        "The digests of the two logs are equal: the differences changed no operation and no time.",
        "What is different:",
        "  topology $.name: one_pe -> other",
    ]


def test_a_time_that_was_nothing_has_no_share(side: Callable[..., Side]) -> None:
    one = side()
    found = replace(compare(one, one), latency_ps=(0, 152_140), change_ps=152_140)
    assert "latency 0 ps -> 152.140 ns (+152.140 ns)" in list(comparison_parts(found))
    found = replace(found, latency_ps=(0, 0), change_ps=0)
    assert "latency 0 ps -> 0 ps (0.0 %)" in list(comparison_parts(found))


def test_rows_that_are_not_shown_are_counted(side: Callable[..., Side]) -> None:
    """14 values of a chip, 14 kinds of PEs with 6 changes each, of which 12, 12 and 4 are shown."""
    one = side()
    changes = [
        ConfigurationChange(part=part, place=(at := f"$.x[{number}]"), place_after=at, before=number, after=number + 1)
        for part in ("topology", "parameter")
        for number in range(14 if part == "topology" else 1)
    ]
    pes = [
        PeChange(pes=[f"pe{number}", f"pe{number + 14}"], change_ps={f"b{each}": 100 - each for each in range(6)})
        for number in range(14)
    ]
    parts = list(comparison_parts(replace(compare(one, one), same=False, configuration=changes, pes=pes)))
    lines = [each for each in parts if isinstance(each, str)]
    assert lines[13:15] == ["  and 2 more values of topology; --json has all", "  parameter $.x[0]: 0 -> 1"]
    assert lines[-1] == "and 4 more PEs with 2 other changes; --json has all"
    assert "b3 +97 ps, 2 more" in as_text(*parts)


def test_a_wire_has_quotes_because_its_arrow_is_none_of_the_difference(side: Callable[..., Side]) -> None:
    one = side()
    at = "$.wires[0]"
    wire = ConfigurationChange(
        part="topology", place=at, place_after=at, before="a -> b", after=None, stated=(True, False)
    )
    parts = list(comparison_parts(replace(compare(one, one), configuration=[wire])))
    assert parts[2] == '  topology $.wires[0]: "a -> b" -> not stated'


def on_chip(side: Callable[..., Side], chip: Path, text: str) -> Side:
    chip.write_text(text)
    return side(options=("--topology", str(chip)))


def test_links_are_matched_by_their_ends(side: Callable[..., Side], tmp_path: Path) -> None:
    """A link in front of another one, whose bandwidth changed: two differences of values, at two places each."""
    before = side()
    text = before.topology.source.text
    old = '{from: "xbar[0]", to: "hbm[0]", bw_gbs: 102.4, length_mm: 3}'
    first = text.index("    - {from:")
    new = '    - {from: "pe[0].pe_tcm", to: "xbar[0]", bw_gbs: 64, length_mm: 2}\n'
    changed = text[:first] + new + text[first:].replace(old, old.replace("102.4", "51.2"))
    lines = list(comparison_parts(compare(before, on_chip(side, tmp_path / "one_pe.yaml", changed))))
    assert lines[1:6] == [
        "  topology $.cube.links[1].bw_gbs, now $.cube.links[2].bw_gbs: 102.4 -> 51.2",
        "  topology $.cube.links[0].from: not stated -> pe[0].pe_tcm",
        "  topology $.cube.links[0].to: not stated -> xbar[0]",
        "  topology $.cube.links[0].bw_gbs: not stated -> 64",
        "  topology $.cube.links[0].length_mm: not stated -> 2",
    ]


def test_an_order_that_differs_is_named(side: Callable[..., Side], tmp_path: Path) -> None:
    """The order of links and of nodes decides ties between routes."""
    before = side()
    text = before.topology.source.text
    links = [f"    - {line}\n" for line in text.split("  links:\n")[1].replace("    - ", "").splitlines()]
    turned = text.split("  links:\n")[0] + "  links:\n" + "".join(reversed(links))
    after = on_chip(side, tmp_path / "one_pe.yaml", turned)
    said = "  topology $.cube.links[0]: stands at $.cube.links[1] now"
    assert list(comparison_parts(compare(before, after)))[2] == said
    name, rest = text.split("\n", 1)[1].split("\n", 1)
    hbm = next(line for line in rest.splitlines() if line.startswith("    hbm:"))
    keys = rest.replace(f"{hbm}\n", "").replace("\n\n  pe_layout", f"\n{hbm}\n\n  pe_layout")
    (change,) = compare(before, on_chip(side, tmp_path / "one_pe.yaml", f"{name}\n{keys}")).configuration
    assert (change.part, change.place) == ("topology", "the order of its keys")


def test_parameters_are_shown_as_they_are_typed(side: Callable[..., Side]) -> None:
    """None is a value, which a run states, and no value that it lacks."""
    before = side()
    params = [{"tile": None, "deep": True, "n": 1}, {"tile": "8x8x8", "deep": False}]
    sides = [before._replace(run=replace(before.run, params=each)) for each in params]
    assert list(comparison_parts(compare(*sides)))[2:5] == [
        "  parameter tile: none -> 8x8x8",
        "  parameter deep: true -> false",
        "  parameter n: 1 -> not stated",
    ]
    (found,) = compare(sides[0], before._replace(run=replace(before.run, params={"deep": True, "n": 1}))).configuration
    assert (found.before, found.after, found.stated) == (None, None, (True, False))


def test_lines_are_matched_through_a_diff(side: Callable[..., Side]) -> None:
    row = ("pe_gemm", "steps", "data")
    before = side(launch({("small.py:9", *row): 70, ("other.py:3", *row): 5}))
    longer = ('"""A matrix product', '# one\n# two\n"""A matrix product')
    after = side(launch({("small.py:11", *row): 40, ("other.py:3", *row): 5, ("small.py:1", *row): 2}), replace=longer)
    found = compare(before, after)
    lines = [(each.line, each.line_after, each.change_ps) for each in found.rows]
    assert lines == [("small.py:9", "small.py:11", -30), ("", "small.py:1", 2)]
    (source,) = found.configuration
    assert (source.part, source.place) == ("source", "0 lines removed, 2 added")


def test_one_line_is_one_and_a_sentence_begins_with_a_capital(side: Callable[..., Side]) -> None:
    row = ("small.py:9", "links", "bytes", "data")
    before = side(launch({row: 9_000}, {"links": 9_000}))
    other = ('"""A matrix product', '"""The matrix product')
    found = compare(before, side(launch({row: 5_000}, {"links": 5_000}), replace=other))
    (source,) = found.configuration
    assert source.place == "1 line removed, 1 added"
    assert found.sentences[-1] == "The links work 4.000 ns less, and 4.000 ns less of it is on the path."


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_matched_lines_match_back(before: list[str], after: list[str]) -> None:
    match = LineMatch(("a.py", before), ("b.py", after))
    for number in range(1, len(after) + 1):
        line = match.first(f"b.py:{number}")
        assert not line or match.second(line) == f"b.py:{number}"
    assert match.second(f"a.py:{len(before) + 1}") == ""
    assert match.first("") == ""
    assert match.first("?:0") == "?:0"


ROWS = st.dictionaries(
    st.tuples(
        *(st.sampled_from(each) for each in (["a.py:1", "a.py:2", ""], ["hbm", "x"], ["p", "q"], ["launch", "v"]))
    ),
    st.integers(1, 10**15),
    max_size=8,
)


@given(ROWS, ROWS, st.lists(st.sampled_from("ab"), max_size=3), st.lists(st.sampled_from("ab"), max_size=3))
def test_differences_add_up_for_any_lines(one: Rows, other: Rows, before: list[str], after: list[str]) -> None:
    match = LineMatch(("a.py", before), ("a.py", after))
    first, second = (Where(launches=[launch(rows)], missing=[]) for rows in (one, other))
    found = list(row_changes(first, second, match))
    assert sum(row.change_ps for row in found) == sum(other.values()) - sum(one.values())
    kernels = [row.change_ps for row in found if row.via != "launch"]
    assert sum(kernels) == sum(
        ps * sign for rows, sign in ((other, 1), (one, -1)) for k, ps in rows.items() if k[3] == "v"
    )


def test_configurations_by_place(side: Callable[..., Side]) -> None:
    before, after = side(options=("-p", "size=9")), side(options=("--seed", "3", "--topology", "one_cube"))
    found = {f"{each.part} {each.place}": (each.before, each.after) for each in compare(before, after).configuration}
    assert found["topology $.name"] == ("one_pe", "one_cube")
    assert found["topology $.cube.pe_layout.count"] == (1, 8)
    assert found["parameter size"] == (9, 8)
    assert found["seed "] == (0, 3)
    assert "parameter label" not in found


def test_runs_of_two_benchmarks(invoke: Invoke, side: Callable[..., Side]) -> None:
    one = side(launch({("small.py:9", "hbm", "bytes", "memory"): 9_000}))
    other = side(replace=("class Small(Benchmark[Params]):\n", 'class Small(Benchmark[Params]):\n    name = "other"\n'))
    with pytest.raises(KbError) as error:
        compare(one, other)
    assert str(error.value) == (
        f"{one.folder}, {other.folder}: got small and other, needs runs of one benchmark; "
        "--blocks compares blocks alone"
    )
    assert compare(one, other, blocks_alone=True).rows == []
    done = invoke("compare", one.folder, other.folder)
    assert (done.exit_code, "got small and other, needs runs of one benchmark" in done.stderr) == (2, True)
    assert invoke("compare", one.folder, other.folder, "--blocks").exit_code == 0


def test_the_exit_code_says_slower(invoke: Invoke, side: Callable[..., Side]) -> None:
    fast, slow = side(), side(options=("-p", "size=64"))
    times = [each.run.results.latency_ps for each in (fast, slow)]
    more = (times[1] - times[0]) / times[0] * 100
    assert more > 1
    assert invoke("compare", fast.folder, slow.folder, "--fail-above", f"{more * 0.99}").exit_code == 1
    assert invoke("compare", fast.folder, slow.folder, "--fail-above", f"{more * 1.01}").exit_code == 0
    assert invoke("compare", slow.folder, fast.folder, "--fail-above", "0").exit_code == 0
    assert invoke("compare", fast.folder, fast.folder, "--fail-above", "0").exit_code == 0
    found = json.loads(invoke("compare", fast.folder, slow.folder, "--json").stdout)
    assert found["change_ps"] == times[1] - times[0]


def test_folders_that_hold_no_run(invoke: Invoke, side: Callable[..., Side], tmp_path: Path) -> None:
    one = side()
    done = invoke("compare", one.folder, tmp_path)
    sentence = f"error: {tmp_path}: got a folder without run.json, needs the folder of a run; kb run prints its name\n"
    assert (done.exit_code, done.stderr) == (2, sentence)
    (one.folder / "bench.py").write_text("changed")
    done = invoke("compare", one.folder, one.folder)
    where = f"error: {one.folder}/bench.py"
    sentence = f"{where}: got other bytes than the run wrote, needs the bytes that run.json lists; run it again\n"
    assert (done.exit_code, done.stderr) == (2, sentence)


def test_stated_tiles_are_no_other_tiles_on_a_chip_with_more_pes(invoke: Invoke, tmp_path: Path) -> None:
    """On eight PEs the 128 x 96 product is cut into eight, so there are more tiles of 64 x 64 than on one."""
    sizes = [word for each in ("M=128", "N=96", "K=64") for word in ("-p", each)] + ["--levers", "none"]
    for name, stated in ("stated", ["-p", "tile=64x64x64"]), ("open", []):
        sides = []
        for chip in "one_pe", "one_cube":
            out = tmp_path / name / chip
            assert invoke("run", "gemm", "--topology", chip, *sizes, *stated, "--out", out).exit_code == 0
            sides.append(read_side(next(out.iterdir())))
        stages = [each.run.results.tile_stages for each in sides]
        assert stages[0] != stages[1]
        found = compare(*sides)
        assert (len(found.tiles), "other tiles" in found.sentences[0]) == ((0, False) if stated else (1, True))


def test_a_run_without_a_log_is_compared_by_its_times(side: Callable[..., Side]) -> None:
    one = side(options=("--no-log",))
    found: RunComparison = compare(one, one)
    sentence = f"{one.folder}: got a run that does not say where its time went, so only the times are compared"
    assert (found.same, found.missing, found.whole_ps) == (False, [sentence, sentence], None)


@pytest.mark.parametrize(
    ("busy_ps", "path_ps", "said"),
    [
        ((1_000, 5_000), (3_000, 9_000), "HBM works 4.000 ns longer, and 6.000 ns more of it is on the path."),
        ((1_000, 5_000), (9_000, 3_000), "HBM works 4.000 ns longer, but 6.000 ns less of it is on the path."),
        ((5_000, 1_000), (3_000, 9_000), "HBM works 4.000 ns less, but 6.000 ns more of it is on the path."),
    ],
)
def test_work_and_path_that_change_against_each_other_are_joined_by_but(
    busy_ps: tuple[int, int], path_ps: tuple[int, int], said: str
) -> None:
    assert BlockChange(block="hbm", busy_ps=busy_ps, path_ps=path_ps).sentence([]) == said
