"""The file of golden times, where several processes write it."""

import subprocess
import sys
from pathlib import Path

from kb_cli.golden.golden_file import FILE, read_golden

EACH = 100
WRITES = f"""
import sys
from pathlib import Path
from kb_cli.golden.golden_file import Golden, write_golden
for number in range({EACH}):
    name = f"test_{{sys.argv[1]}}_{{number}}"
    write_golden(Path.cwd(), {{name: Golden(latency_ps=number, chip="one_pe", run=f"{{name}}.kbrun")}})
"""


def test_processes_that_write_at_once_keep_all_times(tmp_path: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", WRITES, each], cwd=tmp_path) for each in "abc"]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(read_golden(tmp_path)) == 3 * EACH
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
