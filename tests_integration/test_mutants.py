"""Single changes of logs, and of the source of kb-plans, never go unnoticed: a sample of `nox -s mutants`."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sampled_cases import sampled

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent / "mutation")
    sweeps, cases, values, source = (
        import_module(f"mutation_{name}") for name in ("sweep", "cases", "values", "source")
    )

SAMPLE = {
    "gemm": 71,
    "gemm_with_epilogue": 67,
    "softmax": 31,
    "overlapping": 17,
    "masked": 17,
    "sums": 43,
    "pieces": 17,
    "vector": 37,
    "layouts": 53,
    "blocks": 97,
    "axes": 113,
    "atomics": 15,
    "sharded_gemm": 23,
}
NAMES = sampled(list(SAMPLE), 6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_the_logs_themselves_are_right(name: str, mode: str) -> None:
    case = cases.CASES[name]()
    assert sweeps.outcome(case, case.log, mode) == "right"


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_is_noticed_or_equivalent(name: str) -> None:
    found = sweeps.sweep(cases.CASES[name](), SAMPLE[name], 7)
    print(sweeps.report(name, found))
    assert found.tried > 60
    assert found.missed == []
    assert found.refused + found.wrong > found.tried // 2


def test_every_record_of_a_log_is_changed_in_every_way() -> None:
    log = cases.CASES["overlapping"]().log
    per_record: dict[int, set[str]] = {}
    for mutant in sweeps.mutants(log):
        per_record.setdefault(mutant.op_id, set()).add(mutant.change)
    common = set.intersection(*per_record.values())
    assert set(per_record) == set(log.ops["op_id"].tolist())
    assert {"dropped", "repeated first", "repeated last", "kind +1", "command_seq -1", "offset +2"} <= common
    assert {"rows -1", "stride +2", "dtype +1", "role +1", "release +1", "owner +1"} <= common


def test_expressions_tell_a_changed_operation_from_the_right_one() -> None:
    case = cases.CASES["overlapping"]()
    log = case.log
    right = values.Values(log, case.memory)
    at = next(number for number, text in enumerate(log.strings) if '"op":"exp"' in text)
    strings = [text.replace("exp", "tanh") if number == at else text for number, text in enumerate(log.strings)]
    other = values.Values(type(log)(log.ops, log.operands, strings, log.immediates), case.memory)
    (rectangle,) = case.rectangles()
    numbers = [np.frombuffer(each.of(*rectangle.in_memory), np.uint64).reshape(8, -1) for each in (right, other)]
    # Rows 0 to 3 are the exponential's, rows 4 to 7 are computed from its rows 2 to 5.
    assert (numbers[0] != numbers[1]).all()


def test_changes_of_a_source_are_noticed_by_its_tests() -> None:
    """A sample of one file, in a process of its own, because pytest runs there in place of the tests themselves."""
    options = ("--file", "math.py", "--tests", "test_math.py", "--every", "10")
    script = Path(__file__).parent / "mutation" / "mutation_source.py"
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^9 mutants, 8 noticed, 1 known as equivalent, 0 missed$", done.stdout, re.MULTILINE), done.stdout


def test_a_source_is_changed_in_every_way() -> None:
    made = [mutant for path in source.SOURCES.rglob("*.py") for mutant in source.mutants_of(path)]
    changes = {(mutant.before, mutant.after) for mutant in made}
    assert ("tile.m + tile.n", "tile.m * tile.n") in changes, "the mutant that once nobody noticed"
    assert {("min", "max"), ("0", "1"), ("True", "False")} <= changes
    for sign in (" - ", " // ", " % ", " and ", " < ", " >= ", " == ", " is not "):
        assert any(sign in before and sign not in after for before, after in changes), sign
    assert {mutant.name for mutant in made} > source.EQUIVALENT.keys()
