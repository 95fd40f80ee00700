"""Random programs of `tl` against numpy, under every way of issue: a sample of what `nox -s programs` runs."""

import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from kb_messages import DType

pytestmark = pytest.mark.speed


FOLDER = Path(__file__).parent / "language"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    programs, runs, values, repeats, triton_programs, digests = (
        import_module(f"language_{name}") for name in ("programs", "runs", "values", "repeats", "triton", "digests")
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_a_random_program_leaves_what_numpy_computes_in_every_way_to_run_it(seed: int) -> None:
    runs.check(programs.draw(seed))


def test_a_case_to_be_repeated_is_repeated_from_templates() -> None:
    case = programs.draw(22)
    assert case.is_repeated
    assert runs.check(case) == 3 * (len(case.models) - 1)


def test_templates_change_nothing_that_a_random_program_shows() -> None:
    repeated = [repeats.check(seed, runs.ISSUES[seed % 3]) for seed in (4, 5, 7, 14)]
    assert sum(each > 0 for each in repeated) > 2


def test_templates_change_nothing_that_a_random_triton_kernel_shows(tmp_path: Path) -> None:
    repeated = [triton_programs.check(seed, tmp_path) for seed in (1, 5)]
    assert sum(repeated) > 20


def test_steps_and_logs_do_not_depend_on_the_hash_seed() -> None:
    seeds = 5, 22
    assert digests.differing(seeds, ("1", "2")) == []
    assert digests.differing(seeds[:1], ("none",)) == [5]


def test_engines_in_threads_log_what_one_thread_logs() -> None:
    """Threads take turns at every few instructions, so that collections of one meet values of the others."""
    case, interval = programs.draw(10), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(lambda _: runs.simulate(case, "decoupled").log.digest, range(12)))
    finally:
        sys.setswitchinterval(interval)
    assert found == {runs.simulate(case, "decoupled").log.digest}


def test_a_value_beyond_its_bound_is_told() -> None:
    wanted = values.rounded(np.array([[1.0, 3.0]]), np.zeros((1, 2)), DType.F16)
    assert wanted.is_exact
    with pytest.raises(AssertionError, match=r"y: 1 of 2 elements are wrong: .* at \(0, 1\), not .*3\.0.* within 0"):
        runs.check_values("y", np.array([[1.0, 3.002]], np.float16), wanted)


def test_the_sample_has_every_kind_of_step() -> None:
    played = {step[0] for seed in range(40) for step in programs.draw(seed).steps}
    assert played == set(programs.STEPS)
