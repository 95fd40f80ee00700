"""The free memory, from files as Linux writes them."""

from pathlib import Path

import pytest

from kb_dataexec.files import available_nbytes, free_memory, with_swap_nbytes

MEMINFO = "MemTotal:       16000000 kB\nMemFree:  1000 kB\nMemAvailable:    8000000 kB\nSwapFree:  2000000 kB\n"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with 8 GB left, and the folder for the files of its container."""
    (tmp_path / "meminfo").write_text(MEMINFO)
    monkeypatch.setattr(free_memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(free_memory, "_CGROUP", tmp_path)
    return tmp_path


def test_a_machine_without_containers(machine: Path) -> None:
    assert available_nbytes() == 8_000_000 * 1024
    assert with_swap_nbytes() == 10_000_000 * 1024


def test_a_container_with_a_limit(machine: Path) -> None:
    """Of 4 GB, 3 GB are in use, of which 500 MB are of files."""
    for name, text in (
        ("max", "4000000000\n"),
        ("current", "3000000000\n"),
        ("stat", "anon 7\ninactive_file 500000000\n"),
    ):
        (machine / f"memory.{name}").write_text(text)
    assert available_nbytes() == 1_500_000_000
    (machine / "memory.max").write_text("max\n")
    assert available_nbytes() == 8_000_000 * 1024
    (machine / "memory.max").write_text("2000000000\n")
    assert available_nbytes() == 0


def test_a_system_that_publishes_nothing(machine: Path) -> None:
    (machine / "meminfo").write_text("MemTotal: 7 kB\n")
    assert available_nbytes() is None
    assert with_swap_nbytes() is None
