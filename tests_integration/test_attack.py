"""Attacks are handled well: a sample. `nox -s cases` tries every kind, and `nox -s attack` far more of each."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from sampled_cases import sampled

ATTACK = Path(__file__).parent / "attack"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ATTACK)
    patch.setenv("OPENBLAS_NUM_THREADS", "1")
    attack, attempts = map(import_module, ("attack", "attempt"))

KINDS = sampled(list(attack.KINDS), 11)
N_PROCESSES = 2
"""Kinds share the imports and the run that attacks start from."""


@pytest.mark.parametrize("kinds", [KINDS[first::N_PROCESSES] for first in range(N_PROCESSES)], ids=", ".join)
def test_a_sample_is_handled_well(kinds: list[str]) -> None:
    command = [sys.executable, str(ATTACK / "attack.py"), "--most", "1"]
    command += [word for kind in kinds for word in ("--kind", kind)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = [line.split()[-2] for line in done.stdout.splitlines()[1:]]
    assert len(tried) == len(kinds)
    assert min(map(int, tried)) >= 1


def test_an_attempt_that_ends_badly_is_told() -> None:
    Ended, wrong_with = attempts.Ended, attempts.wrong_with
    assert wrong_with(Ended(0, "", 0.1, 0)) == ""
    assert wrong_with(Ended(0, "", 0.1, 0), damaged=True) == "damage that passed as ok"
    assert wrong_with(Ended(2, "error: a: got b, needs c", 0.1, 0), damaged=True) == ""
    assert wrong_with(Ended(2, "", 0.1, 0)) == "no sentence"
    assert wrong_with(Ended(4, "error: a bug", 0.1, 0)) == "exit code 4"
    assert wrong_with(Ended(-11, "", 0.1, 0)) == "exit code -11"
    assert wrong_with(Ended(1, "Traceback (most recent call last)\n  x\nKeyError: 'a'", 0.1, 0)).startswith(
        "a traceback"
    )
    assert wrong_with(Ended(0, "", 31, 0)) == "no end within 30 s"
    assert wrong_with(Ended(0, "", 0.1, 5 << 30)) == "5120 MiB of memory"
    assert attack.count([attack.Tried("a", ""), attack.Tried("b", "bad")]) == (2, [attack.Tried("b", "bad")])
