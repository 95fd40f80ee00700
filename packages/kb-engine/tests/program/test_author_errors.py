import linecache
import pickle
from pathlib import Path

import pytest

from kb_engine.program.author.author_errors import UserCodeError, explain
from kb_messages import KernelError

ROOT = Path(__file__).parent


def caught(function):
    try:
        function()
    except Exception as error:  # noqa: BLE001 - whatever it is, is handed on
        return error
    raise AssertionError


def fails():
    raise ValueError("boom")


def misuses():
    raise KernelError("a[0:4]", "an empty slice", "at least one element", "look again")


def test_an_exception_of_the_kernel_keeps_its_text_and_frames():
    error = explain(caught(fails), ROOT, "a kernel that returns")
    assert isinstance(error, UserCodeError)
    where = f"test_author_errors.py:{fails.__code__.co_firstlineno + 1}"
    assert (
        str(error).splitlines()[0]
        == f"{where}: got ValueError: boom, needs a kernel that returns; see the frames below"
    )
    assert [each.strip() for each in error.frames.splitlines() if "File" in each][-1].endswith(", in fails")


@pytest.mark.parametrize("name", ["/tmp/ipykernel_1/2345.py", "<ipython-input-3-abcdef>"])
def test_an_exception_in_a_cell_of_a_notebook_names_its_line(name, monkeypatch):
    text = "def fails():\n    1 / 0\n"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    names = {}
    exec(compile(text, name, "exec"), names)
    lines = str(explain(caught(names["fails"]), ROOT, "a kernel that returns")).splitlines()
    where = f"{name.rpartition('/')[2]}:2"
    assert (
        lines[0]
        == f"{where}: got ZeroDivisionError: division by zero, needs a kernel that returns; see the frames below"
    )
    assert lines[-2:] == [f'  File "{name}", line 2, in fails', "    1 / 0"]


def test_an_error_of_ours_is_placed_at_the_kernels_line():
    error = explain(caught(misuses), ROOT, "a kernel that returns")
    where = f"test_author_errors.py:{misuses.__code__.co_firstlineno + 1}"
    assert str(error) == f"{where}: a[0:4]: got an empty slice, needs at least one element; look again"


def test_an_error_that_names_the_line_is_left_alone():
    where = f"test_author_errors.py:{misuses.__code__.co_firstlineno + 1}"

    def named():
        raise KernelError(f"{where}: x", "a", "b")

    where = f"test_author_errors.py:{named.__code__.co_firstlineno + 1}"
    original = caught(named)
    assert explain(original, ROOT, "a kernel that returns") is original


def test_it_survives_being_rebuilt_from_its_arguments():
    error = explain(caught(fails), ROOT, "a kernel that returns")
    assert str(type(error)(*error.args)) == str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
