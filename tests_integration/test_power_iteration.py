"""A kernel that stops by what it has computed: how long it runs follows from the data."""

import json
from pathlib import Path

import pytest
from python_copies import kb


def run(folder: Path, *options: str) -> tuple[int, dict[str, object]]:
    done = kb(folder, "run", "power_iteration", "--json", *options)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("topology", ["one_pe", "one_cube"])
@pytest.mark.parametrize("size", [1, 40, 128])
def test_both_passes_agree_on_it(tmp_path: Path, topology: str, size: int) -> None:
    code, found = run(tmp_path, "--topology", topology, "-p", f"N={size}")
    assert (code, found["verified"]) == (0, True)


def test_a_coarser_tolerance_ends_earlier(tmp_path: Path) -> None:
    times = [run(tmp_path, "-p", f"tolerance={each}")[1]["latency_ps"] for each in ("1e-6", "1e-3", "1e-1")]
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]
    assert len(set(times)) == len(times)


def test_what_is_stopped_too_early_is_wrong(tmp_path: Path) -> None:
    code, found = run(tmp_path, "-p", "most=2")
    assert (code, found["verified"]) == (1, False)
