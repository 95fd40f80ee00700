"""From a definition to points: combinations, rows that belong together, conditions, and draws."""

import re
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from kb_cli.sweep.costs import costs_of
from kb_cli.sweep.definition import SweepOptions, defined
from kb_cli.sweep.expression import Expression
from kb_cli.sweep.points import Point, points_of
from kb_messages import KbError


def points(name: str = "gemm", **options: object) -> list[Point]:
    return points_of(defined(name, SweepOptions(**options)))  # type: ignore[arg-type]


def test_all_combinations_with_the_chip_outside() -> None:
    found = points(params=["M=1,2", "tile=a,b"], sets=["$.x.bw=5,6"])
    assert found[0] == {"bw": "5", "M": "1", "tile": "a"}
    assert [(each["bw"], each["M"], each["tile"]) for each in found[:5]] == [
        ("5", "1", "a"), ("5", "1", "b"), ("5", "2", "a"), ("5", "2", "b"), ("6", "1", "a"),
    ]  # fmt: skip
    assert len(found) == 8


def test_several_places_get_one_value_and_names_stay_apart() -> None:
    definition = defined("gemm", SweepOptions(sets=["$.a.bw=$.b.bw=1,2", "$.c.bw=3,4"]))
    assert definition.axes == ["a.bw", "c.bw"]
    assert definition.groups[0].axes[0].paths == (("a", "bw"), ("b", "bw"))


def test_a_file_with_everything(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "benchmark: gemm\ntopology: [one_pe, one_cube]\nset: {$.a.bw: {from: 64, to: 256, times: 2}}\n"
        "params: {K: 7, dtype: [f16, bf16]}\nlist:\n- {M: 1, N: 2}\n- {M: 3, N: 4}\n"
        "where: [M * bw < 500]\ncost: bw\nrandom: {points: 9, seed: 1}\n"
    )
    definition = defined(str(tmp_path / "s.yaml"), SweepOptions())
    assert definition.fixed == {"K": "7"}
    assert definition.cost == "bw"
    found = points_of(definition)
    assert len(found) == 9
    assert found == points_of(definition), "the draw has a seed"
    assert all(int(each["M"]) * int(each["bw"]) < 500 for each in found)
    assert {(each["M"], each["N"]) for each in found} <= {("1", "2"), ("3", "4")}
    every = points_of(definition._replace(most=None))
    assert len(every) == 2 * 3 * 2 * 2 - 2 * 2 * 1, "all but M = 3 with bw = 256"
    assert [each for each in every if each in found] == found, "drawn points keep the order of the grid"
    assert defined(str(tmp_path / "s.yaml"), SweepOptions(params=["K=1,2"], topology="one_sip")).topology == "one_sip"


def test_a_parameter_of_one_value_has_its_name_in_expressions_and_workloads(tmp_path: Path) -> None:
    """A file stays good when an option gives one value in place of several."""
    text = "benchmark: gemm\nparams: {M: [1, 2], N: [3, 4]}\nwhere: [M * N < 5]\nover: [M]\ncost: N + M\n"
    (tmp_path / "s.yaml").write_text(text)
    definition = defined(str(tmp_path / "s.yaml"), SweepOptions(params=["M=1", "tile=8x4x2"], where=["tile_n == 4"]))
    assert points_of(definition) == [{"N": "3"}, {"N": "4"}]
    assert definition.over == ()
    (cost,) = costs_of(definition, points_of(definition), ())
    assert [cost.of(point) for point in points_of(definition)] == [4, 5]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("random: {points: 0}", r"random\.points: got 0, needs >= 1"),
        ("random: {points: -3}", r"random\.points: got -3, needs >= 1"),
        ("random: {points: 1, seed: -1}", r"random\.seed: got -1, needs >= 0"),
        ("params: {label: {from: 8, to: 1.0e+300, times: 2}}", "label: got a range of numbers with many digits, needs"),
    ],
)
def test_numbers_of_a_file_have_the_bounds_of_options(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "s.yaml").write_text(f"benchmark: gemm\n{line}\n")
    with pytest.raises(KbError, match=said):
        defined(str(tmp_path / "s.yaml"), SweepOptions())


def test_an_empty_topology_is_refused_and_not_taken_for_none(tmp_path: Path) -> None:
    with pytest.raises(KbError, match=r"^--topology: got an empty value in '', needs values between commas$"):
        defined("gemm", SweepOptions(topology=""))
    (tmp_path / "s.yaml").write_text('benchmark: gemm\ntopology: ""\n')
    with pytest.raises(KbError, match=r"s\.yaml: topology: got an empty value in '', needs values between commas$"):
        defined(str(tmp_path / "s.yaml"), SweepOptions())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "parms: {M: 1}",
            (
                ":2:1: $.parms: got an unknown key, needs one of benchmark, benchmarks, topology, set, params, list, "
                "where, cost, over, best, within, random; did you mean 'params'?"
            ),
        ),
        ("random: {points: few}", ":2:10: $.random.points: got 'few', needs an int"),
        ("list: [3]", ":2:8: $.list[0]: got 3, needs a mapping"),
        (
            "params: {M: {from: 64, to: 128, step: 0}}",
            (
                ": M: got the range 64.0:128.0:0.0, needs one that grows and ends; write first:last:step or "
                "first:last:*factor, with first below last"
            ),
        ),
    ],
)
def test_a_wrong_part_of_a_file_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"benchmark: gemm\n{text}\n")
    with pytest.raises(KbError) as error:
        defined(str(file), SweepOptions())
    assert str(error.value) == f"{file}{said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "set: {hbm.bw: 1}",
            "set: got 'hbm.bw', needs a place of the chip, like $.cube.nodes.hbm.bw_gbs; write",
        ),
        ("params: {$.a.bw: 1}", "params: got '$.a.bw', needs a parameter of the benchmark; write a place of the chip"),
    ],
)
def test_a_key_of_a_file_stands_under_the_part_it_changes(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"benchmark: gemm\n{text}\n")
    with pytest.raises(KbError) as error:
        defined(str(file), SweepOptions())
    assert str(error.value).startswith(f"{file}: {said}")


def test_a_span_of_a_file_has_the_values_of_the_same_range(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "benchmark: gemm\nset: {$.a.bw: {from: 51.2, to: 204.8, times: 2}, $.b.x: {from: 0.1, to: 0.3, step: 0.1}}\n"
    )
    said = [f"{each['bw']} {each['x']}" for each in points(str(file))]
    assert said[:4] == ["51.2 0.1", "51.2 0.2", "51.2 0.3", "102.4 0.1"]
    assert points(str(file)) == points(sets=["$.a.bw=51.2:204.8:*2", "$.b.x=0.1:0.3:0.1"])


def test_a_table_of_points(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("M,$.a.bw\n1,5\n2,6\n")
    assert points(table=tmp_path / "t.csv", params=["N=8,9"]) == [
        {"M": "1", "bw": "5", "N": "8"}, {"M": "1", "bw": "5", "N": "9"},
        {"M": "2", "bw": "6", "N": "8"}, {"M": "2", "bw": "6", "N": "9"},
    ]  # fmt: skip


def test_draws_of_a_grid_that_nobody_can_list() -> None:
    found = points(params=[f"{name}=1:1000" for name in "abcd"], most=5)
    assert len({tuple(each.values()) for each in found}) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"params": ["M"]},
        {"params": ["$.a=1"]},
        {"sets": ["M=1"]},
        {"sets": ["$.=1"]},
        {"params": ["M=1,2"], "where": ["M > 2"]},
        {"params": ["M=1,2"], "where": ["Z > 2"]},
        {"params": ["M=1,2"], "where": ["M >"]},
        {"params": ["M=1,a"], "where": ["M > 2"]},
        {"params": ["M=0,1"], "where": ["1 / M > 2"]},
        {"params": ["M=1,2"], "where": ["M.real > 0"]},
        {"params": ["M=1,2"], "where": ["open('x')"]},
        {"params": [f"{name}=1:1000" for name in "abcd"]},
        {"table": Path("nowhere.csv")},
    ],
)
def test_refused_in_a_sentence(options: dict[str, object]) -> None:
    with pytest.raises(KbError, match=r"got .*, needs"):
        points(**options)


@pytest.mark.parametrize("text", ["", "a: [", "benchmark: 3", "benchmark: gemm\nparam: {}", "params: {M: 1}", "[1]"])
def test_files_that_are_no_sweep(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(KbError, match=r"s\.yaml.*got .*, needs"):
        defined(str(tmp_path / "s.yaml"), SweepOptions())


TOO_LARGE = "got too large a value at M=64, needs integers of at most 1023 bits, and texts of at most 1000 characters"
FUNCTIONS = "needs operators and the functions min, max, abs, log2, sqrt, int over M"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Q > 1", "got 'Q', needs a name that has values here: M; give its values with -p Q=VALUES"),
        ("M ** M ** M", TOO_LARGE),
        ("M.real", f"got 'M.real', {FUNCTIONS}"),
        ("round(M)", f"got 'round(M)', {FUNCTIONS}"),
    ],
)
def test_an_expression_that_cannot_be_computed_says_why(text: str, said: str) -> None:
    with pytest.raises(KbError) as error:
        Expression(text, ["M"], "--where").value({"M": "64"})
    assert str(error.value) == f"--where: {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("M = 16", "got 'M = 16', needs one expression over M; compare with =="),
        ("M = 16; 1", "got 'M = 16; 1', needs one expression over M; compare with =="),
        ("M; 1", "got 'M; 1', needs one expression over M"),
        ("M => 16", "got 'M => 16', needs one expression over M"),
        ("M <=", "got 'M <=', needs one expression over M"),
        ("min(M, default=3) > 1", "got 'min(M, default=3) > 1', needs functions of values alone, such as min(M, 3)"),
        (" ", "got ' ', needs one expression over M"),
    ],
)
def test_texts_that_are_not_one_expression_are_refused_before_points_are_tried(text: str, said: str) -> None:
    with pytest.raises(KbError) as error:
        Expression(text, ["M"], "--where")
    assert str(error.value) == f"--where: {said}"


@pytest.mark.parametrize(("text", "found"), [("M", 64), ("M and 1", 1), ("kind", "'a'"), ("M % 2", 0)])
def test_a_condition_that_is_no_truth_value_is_refused(text: str, found: object) -> None:
    with pytest.raises(KbError) as error:
        Expression(text, ["M", "kind"], "--where").holds({"M": "64", "kind": "a"})
    needs = "needs true or false; compare it, such as by == or <="
    assert str(error.value) == f"--where: got {found} at M=64 kind=a, {needs}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / K", "division by zero, needs an expression that every point has a value for"),
        ("2 ** 5000000", TOO_LARGE.removeprefix("got ").replace(" at M=64", "")),
    ],
)
def test_an_error_where_no_axis_varies_names_no_point(text: str, said: str) -> None:
    with pytest.raises(KbError) as error:
        Expression(text, [], "--cost", {"K": "0"}).value({})
    assert str(error.value) == f"--cost: got {said}"


@pytest.mark.parametrize(
    "text",
    ["2 ** 10**9", "9 ** 4000000", "10**2000000 > M", "M ** -10**9", "2.0 ** 10**9", "'a' * 10**9",
     "2**1022 * 2 - 1 - M", "10**9 * 'a'", "b'a' * 10**9", "'x' * 999 + 'y' * 999", "1 << 10**9", "1 << 1023",
     "(M << 1000) << 1000", "-(2**1022) * 2", "2**1022 - -2**1022", "int('9' * 900)", "int(1e308 * 10)", "9" * 900,
     "0x" + "f" * 300],
)  # fmt: skip
def test_a_value_beyond_the_bounds_is_refused_before_it_is_computed(text: str) -> None:
    began = process_time()
    with pytest.raises(KbError) as error:
        Expression(text, ["M"], "--where").value({"M": "64"})
    assert process_time() - began < 0.5
    assert str(error.value) == f"--where: {TOO_LARGE}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'%1000000000d' % M", "got % of a text at M=64, needs an expression that every point has a value for"),
        ("b'%1000000000d' % M", "got % of a text at M=64, needs an expression that every point has a value for"),
        ("f'{M:1000000000}'", f"got \"f'{{M:1000000000}}'\", {FUNCTIONS}"),
        ("'abc'[10**9]", "got string index out of range at M=64, needs an expression that every point has a value for"),
        ("-" * 900 + "M", "got 902 levels of nesting, needs at most 150"),
        ("not " * 200 + "M", "got 202 levels of nesting, needs at most 150"),
        ("M" * 1001, "got 1001 characters, needs at most 1000"),
    ],
)
def test_a_text_that_would_grow_is_refused(text: str, said: str) -> None:
    began = process_time()
    with pytest.raises(KbError) as error:
        Expression(text, ["M"], "--where").value({"M": "64"})
    assert process_time() - began < 0.5
    assert str(error.value) == f"--where: {said}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2**1022 + (2**1022 - 1)", 2**1023 - 1),
        ("1 ** 10**300 + (-1) ** 10**300 + 0 ** 10**300", 2),
        ("M << 8 >> 4", 1024),
        ("'a' * M == 'b'", False),
        ("'ab'[0] + 'c'", "ac"),
        ("-7 % 3 + 7.5 % 2", 3.5),
        ("+".join(["M"] * 100), 6400),
        ("log2(2**1000)", 1000.0),
        ("int('12') * -M", -768),
    ],
)
def test_values_within_the_bounds_are_pythons(text: str, value: object) -> None:
    found = Expression(text, ["M"], "--where").value({"M": "64"})
    assert (type(found), found) == (type(value), value)


def test_a_tile_of_endless_digits_is_a_text() -> None:
    assert Expression("tile == 'a'", ["tile"], "--where").holds({"tile": f"{'9' * 5000}x8x8"}) is False


def test_a_condition_may_be_the_name_of_a_truth_value() -> None:
    condition = Expression("flag and M == 64 or not flag", ["M", "flag"], "--where")
    assert [condition.holds({"M": "64", "flag": flag}) for flag in ("true", "false")] == [True, True]
    assert not condition.holds({"M": "65", "flag": "true"})


def test_expressions_know_sizes_and_tiles() -> None:
    point = {"tile": "64x32x16", "tcm.size": "2 MiB", "flag": "true", "links[0].bw": "1.5"}
    value = Expression("tile_m * tile_k + tcm_size + links_0__bw if flag else 0", list(point), "--where").value(point)
    assert value == 64 * 16 + 2 * 2**20 + 1.5


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"params": ["label=a,\udcff"]}, "-p label"),
        ({"params": ["label=\udcff"]}, "-p label"),
        ({"sets": ["$.name=\udcff"]}, "--set $.name"),
        ({"topology": "one_pe,\udcff.yaml"}, "--topology"),
    ],
)
def test_a_value_of_bytes_that_are_no_utf8_is_refused(options: dict[str, Any], where: str) -> None:
    """No table of results could hold the value."""
    with pytest.raises(
        KbError, match=f"^{re.escape(where)}: got the byte 0xff, which is no UTF-8, in '.*', needs text"
    ):
        points(**options)


OTHER, SAVE = "the byte 0x{} at offset {}, which is no UTF-8, needs a", "file in UTF-8; save the file as UTF-8"
NEEDS = ", needs a CSV file in UTF-8 whose first row names parameters or places"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.yaml", b"benchmark: gemm\nparams: {M: [8, \xff]}\n", f"{OTHER.format('ff', 32)} YAML {SAVE}"),
        ("a.csv", b"M,N\n8,\xe9\n", f"{OTHER.format('e9', 6)} CSV {SAVE}"),
        ("a.csv", b'M,N\n8,"9\n', f"unexpected end of data{NEEDS}"),
        ("a.csv", b"M,N\n8," + b"9" * 200_000, f"field larger than field limit (131072){NEEDS}"),
    ],
)
def test_a_file_of_other_bytes_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    with pytest.raises(KbError) as caught:
        points(name) if name == "a.yaml" else points(table=Path(name))
    assert str(caught.value) == f"{name}:2: got {said}"


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfbenchmark: gemm\nparams: {M: [8, 16]}\n")
    assert points(str(tmp_path / "a.yaml")) == [{"M": "8"}, {"M": "16"}]
