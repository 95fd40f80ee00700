"""A small benchmark as a file, and `kb` in this process."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kb_cli.main import kb

sys.path.insert(0, str(Path(__file__).parent))  # for the helper modules beside this file

COPY = '''\
"""A matrix product on one PE, as small as a benchmark gets."""

import numpy as np
from kb_engine import Benchmark
from msgspec import Struct


def kernel(tl, a, b, c):
    tl.wait(tl.composite("gemm", a, b, out=c))


class Params(Struct):
    size: int = 8
    label: str = "x"


class Small(Benchmark[Params]):
    Params = Params

    def inputs(self, p, rng):
        return {name: rng.standard_normal((p.size, p.size), dtype=np.float32) for name in "ab"}

    def launch(self, host, p, tensors):
        a, b = (host.tensor(name, tensors[name], "f32") for name in "ab")
        c = host.empty("c", (p.size, p.size), "f32")
        host.launch(kernel, a, b, c, pes=[0])
        return {"c": c}

    def reference(self, p, inputs):
        return {"c": inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)}

    def flops(self, p):
        return 2 * p.size**3
'''


@pytest.fixture(autouse=True)
def _no_workloads_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are those of kb-cli, also where a package with models is installed."""
    monkeypatch.setattr("kb_cli.benchmark.workloads.entry_points", lambda group: [])


@pytest.fixture
def bench_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes small.py with some of its text replaced: `bench_file("old", "new", ...)`."""

    def write(*replacements: str) -> Path:
        text = COPY
        for old, new in zip(replacements[::2], replacements[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "small.py"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`kb` in an empty folder: `invoke("run", "gemm", ...)`. An exception other than an exit is raised."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Result:
        return CliRunner().invoke(kb, [str(arg) for arg in args], catch_exceptions=False)

    return run


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """A disk that has room for names alone: files are opened to be written, which empties them, and take no bytes."""
    path_open = Path.open

    def opened(path: Path, mode: str = "r", *args: Any, **named: Any) -> Any:
        if "w" in mode:
            path_open(path, mode).close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return path_open(path, mode, *args, **named)

    @contextmanager
    def full() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", opened)
            yield

    return full
