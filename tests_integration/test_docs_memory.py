"""What docs/memory.md quotes is what the commands beside it print."""

import re
import subprocess
from pathlib import Path

import pytest
from python_copies import kb

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
COMMANDS = [line for block in TEXT.split("```bash\n")[1:] for line in block.split("```")[0].splitlines()]
ROWS = re.findall(r"^\| `(one_cube|one_cube_banked|\w+\.yaml)` \| (.*) \| (.*) \|$", TEXT, re.MULTILINE)
(GEMM,) = [line for line in COMMANDS if " run gemm " in line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the root of a checkout, after the page's `sed` commands."""
    made = tmp_path_factory.mktemp("checkout")
    (made / "topologies").symlink_to(ROOT / "topologies")
    for line in COMMANDS:
        if line.startswith("sed "):
            subprocess.run(line, shell=True, cwd=made, check=True)
    return made


def printed(folder: Path, command: str) -> list[str]:
    done = kb(folder, *command.removeprefix(".venv/bin/kb ").split())
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def latency(lines: list[str]) -> str:
    (line,) = [line for line in lines if line.startswith("latency ")]
    return re.split(r", | \(", line.removeprefix("latency"))[0].strip()


def test_the_probes_end_as_quoted(folder: Path) -> None:
    quoted = TEXT.split("```text\n")[1].split("```")[0].splitlines()
    probes = [line for line in COMMANDS if " probe " in line]
    assert [printed(folder, line)[-1] for line in probes] == quoted
    assert len(quoted) == 4


@pytest.mark.parametrize(("topology", "gemm", "probe"), ROWS)
def test_a_row_of_the_table_is_what_two_commands_say(folder: Path, topology: str, gemm: str, probe: str) -> None:
    command = GEMM.replace("--topology one_cube_banked", f"--topology {topology}")
    assert latency(printed(folder, f"{command} --no-verify --keep none")) == gemm
    assert latency(printed(folder, f".venv/bin/kb probe pe0 hbm0 --nbytes 1MiB --topology {topology}")) == probe


def test_the_table_has_all_chips_of_the_page() -> None:
    assert [topology for topology, _, _ in ROWS] == [
        "one_cube",
        "one_cube_banked",
        *(line.rpartition("> ")[2] for line in COMMANDS if line.startswith("sed ")),
    ]


def test_the_banked_cube_differs_in_its_hbm_alone() -> None:
    plain, banked = ((ROOT / "topologies" / f"{name}.yaml").read_text() for name in ("one_cube", "one_cube_banked"))
    after = "    # Shared by the cube's PEs."
    assert plain.partition(after)[2] == banked.partition(after)[2] != ""
    between = "# Assumed: near the speed", "\ncube:\n"
    assert plain[plain.index(between[0]) : plain.index(between[1])] in banked


def test_the_looks_at_a_chip_of_the_readme_work(folder: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## Look at a chip\n")[1].split("\n## ")[0]
    commands = section.split("```bash\n")[1].split("```")[0].splitlines()
    assert [printed(folder, command)[-1].split(":")[0].split()[0] for command in commands] == [
        "picture",
        "latency",
        "heat",
    ]
