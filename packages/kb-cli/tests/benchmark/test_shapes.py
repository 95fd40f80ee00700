"""Shapes files: their rows, and errors with file and line."""

import os
import time
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from kb_cli.benchmark.values import shapes
from kb_cli.benchmark.values.shapes import read_shapes
from kb_messages import BenchmarkError, DType, TileShape

Size = Annotated[int, Meta(ge=1)]


class Params(Struct):
    M: Size
    N: Size
    K: Size
    seed: int = 0


def read(folder: Path, content: str | bytes, **texts: str) -> list[tuple[object, ...]]:
    path = folder / "shapes.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    rows = read_shapes(path, Params, texts)
    return [(row.where.removeprefix(f"{folder}/"), row.cells, row.params) for row in rows]


def test_rows_carry_their_line_labels_and_params(tmp_path: Path) -> None:
    rows = read(tmp_path, "layer,M,N,K\nq,1,2,3\n\nk,4,5,6\n", seed="9")
    assert rows == [
        ("shapes.csv:2", {"layer": "q", "M": 1, "N": 2, "K": 3}, Params(1, 2, 3, 9)),
        ("shapes.csv:4", {"layer": "k", "M": 4, "N": 5, "K": 6}, Params(4, 5, 6, 9)),
    ]


def test_byte_order_mark_crlf_spaces_and_quotes_do_not_matter(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbfM, N ,K,why\r\n 1,2,3,"a, b"\r\n\r\n,,,\r\n'
    assert read(tmp_path, content) == [("shapes.csv:2", {"why": "a, b", "M": 1, "N": 2, "K": 3}, Params(1, 2, 3))]


NEEDS = "needs a CSV file in UTF-8 whose first row names parameters"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("M,N,K\n1,2,3\nx,1,1\n", "shapes.csv:3: M: got 'x', needs an int >= 1"),
        ("M,N,K\n1,0,3\n", "shapes.csv:2: N: got 0, needs an int >= 1"),
        ("M,N,K\n1,2,\n", "shapes.csv:2: K: got '', needs an int >= 1"),
        ("M,N,K\n1\n", "shapes.csv:2: got 1 cell, needs 3, one for each column"),
        ("M,N,K\n1,2\n", "shapes.csv:2: got 2 cells, needs 3, one for each column"),
        ("M,N,K\n1,2,3,4\n", "shapes.csv:2: got 4 cells, needs 3, one for each column"),
        ("", "shapes.csv: got an empty file, needs a CSV file in UTF-8 whose first row names parameters"),
        ("\n\n", "shapes.csv: got an empty file, needs a CSV file in UTF-8 whose first row names parameters"),
        ("M,N,K\n", "shapes.csv: got no rows, needs a CSV file in UTF-8 whose first row names parameters"),
        ("m,N\n1,2\n", "shapes.csv:1: got a column m, needs M, as the parameter is written; rename it"),
        ("a,b\n1,2\n", "shapes.csv:1: got no column of a parameter, needs at least one of M, N, K, seed; it has a, b"),
        ("M,N\n1,2\n", "shapes.csv:2: -p K: got no value, needs an int >= 1; add -p K=..."),
        ("\nM,N,K,M\n", "shapes.csv:2: got two columns M, needs one; rename or remove one of them"),
        ("M,N,K,\n1,2,3,\n", "shapes.csv:1: got no name for column 4, needs a name for every column"),
        (b"M,N,K\n\xff,1,1\n", ("shapes.csv:2: got the byte 0xff at offset 6, which is no UTF-8, needs a CSV file in "
                               "UTF-8; save the file as UTF-8")),
        ('M,N,K\n1,2,"3\n', f"shapes.csv:2: got unexpected end of data, {NEEDS}"),
        ("M,N,K\n1,2," + "3" * 200_000, f"shapes.csv:2: got field larger than field limit (131072), {NEEDS}"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        read(tmp_path, content)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == message


def test_a_directory_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="got a folder, needs a regular file"):
        read_shapes(tmp_path, Params, {})
    with pytest.raises(BenchmarkError, match="got no such file, needs a file"):
        read_shapes(tmp_path / "nope.csv", Params, {})


def test_a_size_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"^-p M: got a value beside --shapes, needs one of the two; "):
        read(tmp_path, "M,N,K\n1,2,3\n", M="4")


def test_columns_set_parameters_of_any_type(tmp_path: Path) -> None:
    class Other(Struct):
        size: int = 1
        tile: TileShape | None = None
        dtype: DType = DType.F16
        fast: bool = False

    path = tmp_path / "shapes.csv"
    path.write_text("size,why,tile,dtype,fast\n2,first,8x8x8,f32,yes\n3,second,none,f16,no\n")
    rows = read_shapes(path, Other, {})
    assert [row.params for row in rows] == [Other(2, TileShape(8, 8, 8), DType.F32, True), Other(3)]
    assert rows[0].cells == {"why": "first", "size": 2, "tile": "8x8x8", "dtype": "f32", "fast": True}


def test_a_parameter_without_a_column_comes_from_p_or_its_default(tmp_path: Path) -> None:
    assert read(tmp_path, "M,N\n1,2\n", K="7", seed="3") == [("shapes.csv:2", {"M": 1, "N": 2}, Params(1, 2, 7, 3))]


def test_the_last_of_many_rows_is_checked_in_seconds(tmp_path: Path) -> None:
    lines = "".join(f"{number},{number + 1},7\n" for number in range(1, 30_000))
    begin = time.process_time()
    with pytest.raises(BenchmarkError, match=r"shapes.csv:30001: K: got 'x', needs an int >= 1"):
        read(tmp_path, f"M,N,K\n{lines}1,2,x\n")
    assert time.process_time() - begin < 5


def test_too_many_rows_and_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST_ROWS", 2)
    assert len(read(tmp_path, "M,N,K\n1,2,3\n1,2,3\n\n")) == 2
    with pytest.raises(BenchmarkError, match=r"shapes.csv:4: got more than 2 rows, needs no more; cut the file"):
        read(tmp_path, "M,N,K\n1,2,3\n1,2,3\n1,2,3\n")
    (tmp_path / "huge.csv").touch()
    os.truncate(tmp_path / "huge.csv", 1 << 40)
    with pytest.raises(BenchmarkError, match="1099511627776 bytes, needs at most"):
        read_shapes(tmp_path / "huge.csv", Params, {})


def test_an_author_s_check_that_fails_names_the_row_or_the_author(tmp_path: Path) -> None:
    class Checked(Params):
        def __post_init__(self) -> None:
            if self.M == 2:
                raise ValueError("two")
            if self.M == 3:
                raise SystemExit(0)

    (tmp_path / "shapes.csv").write_text("M,N,K\n1,2,3\n2,2,3\n")
    with pytest.raises(BenchmarkError, match=r"shapes.csv:3: -p: got parameters that do not go together \(two\)"):
        read_shapes(tmp_path / "shapes.csv", Checked, {})
    (tmp_path / "shapes.csv").write_text("M,N,K\n3,2,3\n")
    with pytest.raises(BenchmarkError, match=r"^test_shapes.py:\d+: got SystemExit: 0, needs Checked\(\) to succeed"):
        read_shapes(tmp_path / "shapes.csv", Checked, {})
