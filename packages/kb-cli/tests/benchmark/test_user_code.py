"""Code of authors: whatever it raises is one sentence with its line, and the process is as before."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from greenlet import GreenletExit

from kb_cli.benchmark.code.user_code import user_code
from kb_messages import KbError, KernelError

Odd = type("Odd", (Exception,), {"__str__": lambda self: 1})


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


def run(folder: Path, code: str, names: dict[str, object]) -> None:
    file = folder / "bench.py"
    file.write_text(f"# one\n{code}\n", encoding="utf-8")
    with user_code(file, "flops()"):
        exec(compile(file.read_text(), str(file), "exec"), names)


def said(folder: Path, error: BaseException) -> str:
    with pytest.raises(KbError) as caught:
        run(folder, "raise error", {"error": error})
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (SystemExit(0), "SystemExit: 0"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (GreenletExit(), "GreenletExit"),
        (BaseException("b"), "BaseException: b"),
        (StopIteration(5), "StopIteration: 5"),
        (RuntimeError("generator didn't stop"), "RuntimeError: generator didn't stop"),
        (OSError(28, "No space"), "OSError: [Errno 28] No space"),
        (BrokenPipeError(), "BrokenPipeError"),
        (Odd(), "Odd"),
        (Exits(), "Exits"),
        (Exception("\x1b[31m\x00\n\ud800"), "Exception: \\x1b[31m\\x00\\n\\ud800"),
        (Exception("x" * 5000), "Exception: " + "x" * 500 + "..."),
        (type("\x1b[31m", (Exception,), {})(), "\\x1b[31m"),
    ],
)
def test_an_error_of_the_authors_code_is_one_sentence(tmp_path: Path, error: BaseException, text: str) -> None:
    assert said(tmp_path, error) == f"bench.py:2: got {text}, needs flops() to succeed; see the frames below"


def test_an_error_of_kb_keeps_its_words_and_gets_the_line(tmp_path: Path) -> None:
    assert said(tmp_path, KernelError("tensor c", "5", "6")) == "bench.py:2: tensor c: got 5, needs 6"
    assert said(tmp_path, KernelError("a.py:3", "5", "6")) == "a.py:3: got 5, needs 6"


def test_a_signal_and_a_full_disk_of_kb_pass(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "import signal; signal.raise_signal(signal.SIGINT)", {})
    with pytest.raises(OSError, match="a folder in the way") as caught:
        run(tmp_path, "write()", {"write": _kb_writes})
    assert caught.value.errno == 28


def _kb_writes() -> None:
    import kb_cli.run.base.files

    code = compile("raise OSError(28, 'a folder in the way')", kb_cli.run.base.files.__file__, "exec")
    exec(code)


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.chdir('/')",
        "import sys; sys.stdout = None; sys.stderr = 5",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.setrecursionlimit(sys.getrecursionlimit() + 5)",
        "import sys; sys.modules.clear()",
        "import sys; sys.modules['numpy'] = None; del sys.modules['kb_engine']",
        "import sys; sys.modules.clear(); sys.stdout = None; raise ValueError",
    ],
)
def test_the_process_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.chdir(tmp_path)
    descriptor = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    stream = open(descriptor, "w", closefd=False)  # noqa: SIM115 -- closed by what is tested
    with monkeypatch.context() as streams:
        streams.setattr(sys, "stdout", stream)
        streams.setattr(sys, "stderr", stream)
        before = sys.getrecursionlimit(), sys.modules.copy(), Path.cwd()
        with suppress(KbError):
            run(tmp_path, code, {})
        assert before == (sys.getrecursionlimit(), sys.modules, Path.cwd())
        print("said", flush=True)
        print("reported", file=sys.stderr, flush=True)
        reopened = sys.stdout is not stream
    os.close(descriptor)
    assert (tmp_path / "out").read_text() == "said\nreported\n"
    assert reopened == ("close()" in code)


def test_a_stream_without_a_descriptor_must_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    with monkeypatch.context() as streams:
        streams.setattr(sys, "stdout", io.StringIO())
        with pytest.raises(KbError, match=r"sys\.stdout: got a stream that the benchmark closed, needs an open one"):
            run(tmp_path, "import sys; sys.stdout.close()", {})


def test_a_folder_that_was_deleted_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    run(tmp_path, "import os; os.rmdir(os.getcwd())", {})
    run(tmp_path, "5", {})
    os.chdir(tmp_path)
