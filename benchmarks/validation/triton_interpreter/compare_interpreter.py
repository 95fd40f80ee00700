"""Compares results of `tl` here with Triton's own interpreter: types, shapes and numbers, and refusals.

    python benchmarks/validation/triton_interpreter/compare_interpreter.py        # where triton and torch are installed
    python benchmarks/validation/triton_interpreter/compare_interpreter.py --all  # also every difference that is known

Each side runs in a process of its own, because torch must not see the modules that stand for Triton's. The exit code is
1 where a case differs for a reason that is not in KNOWN, or where kernbench refuses what Triton takes.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np

HERE = Path(__file__).parent
KNOWN: Final = {
    r"\.to\(tl\.u?int\d+\) of (fp|bf)": "a float beyond the range of an integer type, or NaN",
    r"larger|tl\.(sort|topk)": "NaN in a comparison, whose result follows the order of the comparisons",
    r"tl\.(maximum|minimum|clamp)": "the sign of a zero, where the operands are 0 and -0",
}
"""The differences that docs/DEVIATIONS.md lists, by a pattern of cases."""
_ROUNDINGS: Final = {r"sum|prod|softmax|dot|fma": 16.0, r"exp|log|sin|cos|sqrt|erf|sigmoid|rand|philox|uniform": 4.0}
"""Units in the last place that sums in another order, and functions of another library, may differ by."""
_DIGITS: Final = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-23}
_SMALLEST: Final = {"fp16": 2.0**-14, "bf16": 2.0**-126, "fp32": 2.0**-126}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="list the differences that are known, too")
    show_all = parser.parse_args().all
    with tempfile.TemporaryDirectory() as folder:
        theirs = _results(Path(folder) / "triton.pickle", TRITON_INTERPRET="1")
        # The kernels call a function of the host, which the interpreter takes, and Triton's compiler refuses.
        ours = _results(Path(folder) / "kb.pickle", "--kb", KB_LENIENT="1")
    counts: Counter[str] = Counter()
    for name, expected in theirs.items():
        verdict, text = _verdict(name, expected, ours[name])
        counts[verdict] += 1
        if text and (show_all or not verdict.startswith("known")):
            print(f"{verdict}: {name}: {text}")
    for verdict, count in counts.most_common():
        print(f"{count:5} {verdict}")
    sys.exit(1 if counts["different"] or counts["refused here"] else 0)


def _results(out: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "run_interpreter_cases.py"), str(out), *arguments]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    found: dict[str, Any] = pickle.loads(out.read_bytes())
    return found


def _verdict(name: str, expected: Any, found: Any) -> tuple[str, str]:
    if len(expected) == 2:
        return "refused by Triton", ""
    if len(found) == 2:
        return "refused here", f"{found[0]} at {found[1]}"
    if expected[:2] != found[:2]:
        return "different", f"Triton has {expected[:2]}, here {found[:2]}"
    difference = _difference(name, *expected[::2], found[2])
    if not difference:
        return "equal", ""
    for pattern, reason in KNOWN.items():
        if re.search(pattern, name):
            return f"known: {reason}", difference
    return "different", difference


def _difference(name: str, kind: str, expected: Any, found: Any) -> str:
    """The difference in words; empty for equal results, and for results that differ by rounding alone."""
    if kind not in _DIGITS:
        wrong = expected != found
    else:
        with np.errstate(all="ignore"):
            wide, other = expected.astype(np.float64), found.astype(np.float64)
            place = np.maximum(np.exp2(np.floor(np.log2(np.abs(wide)))), _SMALLEST[kind]) * _DIGITS[kind]
            allowed = next((each for pattern, each in _ROUNDINGS.items() if re.search(pattern, name)), 0.0)
            close = (np.abs(wide - other) <= allowed * place) & ((wide != 0) | (other != 0) | (allowed > 0))
        same = (wide == other) & (np.signbit(wide) == np.signbit(other))
        wrong = ~(same | close | (np.isnan(wide) & np.isnan(other)))
    if not wrong.any():
        return ""
    at = int(np.argmax(wrong))
    return f"{wrong.sum()} of {wrong.size} elements, number {at}: Triton has {expected[at]}, here {found[at]}"


if __name__ == "__main__":
    main()
