"""Compares random kernels with scalars here with what Triton's compiler makes of them, bit for bit.

    python benchmarks/validation/triton_interpreter/scalars.py --kernels 2000 --seed 1

It needs triton and torch. The expectation is the TTIR of the compiler, computed with numpy. Triton's own interpreter
runs the kernels too, and the last line says for how many it gives something else: it ignores annotations, does not
specialize the argument 1, and has numbers of Python where the compiler has scalars. Each side runs in a process of its
own. The exit code is 1 where a kernel differs.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
from scalar_kernels import Kernel, kernel

HERE: Final = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=2000, help="how many kernels (2000)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the kernels (1)")
    parser.add_argument("--show", type=int, default=5, help="how many kernels that differ are printed (5)")
    given = parser.parse_args()
    kernels = [kernel(given.seed, number) for number in range(given.kernels)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernels.pickle").write_bytes(pickle.dumps(kernels))
        expected, found = _results(folder, "ttir"), _results(folder, "kb")
        interpreted = _results(folder, "interpreter", TRITON_INTERPRET="1")
    counts: Counter[str] = Counter()
    for each in kernels:
        verdict = _verdict(expected[each.name], found[each.name])
        counts[verdict] += 1
        if verdict not in _FINE and sum(counts[name] for name in counts if name not in _FINE) <= given.show:
            _show(each, verdict, expected[each.name], found[each.name])
    for verdict, count in counts.most_common():
        print(f"{count:6} {verdict}")
    others = sum(_verdict(expected[each.name], interpreted[each.name]) not in _FINE for each in kernels)
    print(f"Triton's interpreter gives something else than its compiler for {others} kernels")
    sys.exit(0 if all(verdict in _FINE for verdict in counts) else 1)


_FINE: Final = ("equal", "refused alike", "left open by Triton")


def _results(folder: Path, how: str, **environment: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "run_scalar_kernels.py"), str(folder), how]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    found: dict[str, Any] = pickle.loads((folder / f"{how}.pickle").read_bytes())
    return found


def _verdict(expected: Any, found: Any) -> str:
    if isinstance(expected, str):
        if expected.startswith("open: "):
            return "left open by Triton"
        return "refused alike" if isinstance(found, str) else "refused by Triton alone"
    if isinstance(found, str):
        return "refused here alone"
    return "equal" if all(map(_is_same, expected, found)) else "different"


def _is_same(one: Any, two: Any) -> bool:
    """Whether two arrays have the same bits. Each NaN counts as the same."""
    if one.dtype.kind != "f":
        return bool((one == two).all())
    return bool(((one.view(np.uint32) == two.view(np.uint32)) | (np.isnan(one) & np.isnan(two))).all())


def _show(kernel: Kernel, verdict: str, expected: Any, found: Any) -> None:
    print(f"{verdict}: {kernel.name}, inputs {kernel.inputs}, arguments {kernel.arguments}\n{kernel.source.rstrip()}")
    if isinstance(expected, str) or isinstance(found, str):
        for who, each in (("Triton", expected), ("here", found)):
            print(f"{who}: {each if isinstance(each, str) else 'runs'}")
    else:
        for name, one, two in zip(("oi", "of"), expected, found, strict=True):
            wrong = np.flatnonzero(one.view(f"u{one.itemsize}") != two.view(f"u{two.itemsize}"))
            if wrong.size:
                print(f"{name}: at {wrong.tolist()} Triton has {one[wrong].tolist()}, here {two[wrong].tolist()}")
    print()


if __name__ == "__main__":
    main()
