"""The benchmark that `kb new` writes: small, working, and made to be changed."""

from __future__ import annotations

from keyword import iskeyword
from pathlib import Path

from kb_dataexec.files import writing
from kb_messages import BenchmarkError

_TEXT = '''\
"""NAME: y = a * x + y on vectors. Replace the kernel by one of your own."""

import kernbench as kb
import numpy as np


def kernel(tl, x, y, out, a: float, block: int) -> None:
    """Program p works on the blocks p, p + P, p + 2 P, ... of P programs."""
    n = x.shape[0]
    for start in range(tl.program_id() * block, n, tl.num_programs() * block):
        part = slice(start, min(start + block, n))
        tl.store(out[part], tl.load(x[part]) * a + tl.load(y[part]))


def reference(x, y, a):
    """What is right, in float64."""
    return a * x + y


@kb.benchmark
def NAME(rng, n: int = 16384, a: float = 2.0, block: int = 1024) -> kb.Call:
    """The parameters after rng are those that `kb run FILE -p n=4096` sets."""
    x, y = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
    out = kb.empty(n, "f32")
    expected = reference(x.astype(float), y.astype(float), a)
    return kb.call(kernel, x, y, out, a, block, reference=expected, flops=2 * n)
'''
_TAKEN = ("kb", "kernel", "np", "reference")
"""Names that the text uses itself."""


def write_benchmark(path: Path) -> None:
    """Writes a working benchmark to the new file *path*.

    Raises BenchmarkError for a name that no Python module has, and for a file that exists.
    """
    if path.suffix != ".py" or not path.stem.isidentifier() or iskeyword(path.stem):
        needs = "a Python file whose stem is an identifier"
        raise BenchmarkError(str(path), f"the name {path.name!r}", needs, "name it like mine.py")
    name = f"{path.stem}_benchmark" if path.stem in _TAKEN else path.stem
    text = _TEXT.replace("NAME", name).replace("FILE", path.name)
    try:
        with writing(path), path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BenchmarkError(str(path), "a file of that name", "a new one", "choose another name") from None
