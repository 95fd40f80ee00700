"""Which line of the kernel a call is attributed to: the first of its statement, on every Python."""

from pathlib import Path

import pytest

from kb_engine.program.author import kernel_lines as lines
from kb_engine.program.author.kernel_lines import KernelLines, is_own, line_of

ROOT = Path(__file__).parent


line = KernelLines(ROOT).here
"""As a `tl` call does it: no Python frame stands between the kernel and the engine."""


# fmt: off
def plain(out):
    out(line())


def several_lines(out):
    value = [
        max(
            line(),
            line(),
        ),
        2,
    ]
    out(value[0])


def nested(out):
    out(
        str(
            str(
                line()
            )
        )
    )


def header(out):
    if (
        line() != ""
        and out(
            line()
        )
    ):
        pass


def elif_header(out):
    if out is None:
        out(None)
    elif (
        out(
            line())
    ):
        pass


def body(out):
    for _ in range(1):
        while True:
            with open(__file__):
                out(
                    line())
            break


def chained(out):
    x = (
        "a"
        .join(["", "b"])
        + str(
            line())
    )
    out(x.removeprefix("ab"))


def comprehension(out):
    found = [
        line()
        for _ in range(1)
    ]
    out(found[0])


def later(out):
    f = (  # noqa: E731 - what is tested
        lambda:
        line()
    )
    out(
        f())


def inner_function(out):
    def helper():
        return line()

    out(helper())


def handled(out):
    try:
        raise ValueError
    except ValueError:
        out(
            line())
    finally:
        pass


def returned(out):
    return out(
        line())


def decorator(where):
    def keep(function):
        return where

    return keep


def decorated_first(out):
    @decorator(
        line()
    )
    def helper():
        pass

    out(helper)


def decorated_later(out):
    kept = []

    @decorator(
        line()
    )
    def helper():
        return kept

    out(helper)


def matched(out):
    match 1:
        case 1:
            out(
                line())
# fmt: on


@pytest.mark.parametrize(
    ("kernel", "offset"),
    [
        (plain, 1), (several_lines, 1), (nested, 1), (header, 1), (elif_header, 3), (body, 4), (chained, 1),
        (comprehension, 1), (later, 1), (inner_function, 2), (handled, 4), (returned, 1), (matched, 3),
        (decorated_first, 1), (decorated_later, 3),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_a_call_stands_in_the_first_line_of_its_statement(kernel, offset):
    found = []
    kernel(found.append)
    assert found == [f"test_kernel_lines.py:{kernel.__code__.co_firstlineno + offset}"]


def test_a_file_below_the_root_is_named_from_the_root_on(tmp_path):
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "bench.py").write_text("x = (\n    1 +\n    2\n)\n")
    assert line_of(str(folder / "bench.py"), 3, tmp_path) == "benchmarks/bench.py:1"


def test_a_file_elsewhere_is_named_alone(tmp_path):
    (tmp_path / "bench.py").write_text("x = 1\n")
    assert line_of(str(tmp_path / "bench.py"), 1, Path("/nowhere")) == "bench.py:1"


def test_a_file_without_source_keeps_its_line():
    assert line_of("<string>", 7, ROOT) == "<string>:7"


def test_a_file_that_is_no_python_keeps_its_line(tmp_path):
    (tmp_path / "broken.py").write_text("def (:\n")
    assert line_of(str(tmp_path / "broken.py"), 1, tmp_path) == "broken.py:1"


def test_the_engines_own_files_are_told_from_others():
    assert is_own(lines.__file__)
    assert not is_own(__file__)


def test_a_file_that_has_changed_has_other_statements(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text("f(\n  1,\n  2,\n)\n")
    assert [line_of(str(file), lineno, tmp_path) for lineno in (1, 3)] == ["kernels.py:1"] * 2
    file.write_text("# changed\n\nf(1)\ng(\n  2)\n")
    assert [line_of(str(file), lineno, tmp_path) for lineno in (3, 5)] == ["kernels.py:3", "kernels.py:4"]
