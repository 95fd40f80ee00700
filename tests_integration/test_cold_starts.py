"""Each command of `kb` in a Python that was started for it alone: another command's imports may hide a missing one.

Tests of what commands do run them in copies of a Python that has imported all commands.
"""

import re
import subprocess
import sys
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from python_copies import kb, python
from sampled_cases import sampled

from kb_cli.main import COMMANDS

KB = str(Path(sys.executable).with_name("kb"))
SMALL = "-p M=16 -p N=16 -p K=16 --topology one_pe"
SCRIPT = """
import numpy as np
import triton


@triton.jit
def zero(x_ptr):
    import triton.language as tl

    tl.store(x_ptr, 0.0)


zero[(1,)](np.ones(1, np.float32))
"""
COLD = {
    "compare": "compare RUN RUN",
    "exec": "exec --lenient script.py",
    "list": "list",
    "new": "new mine.py",
    "pack": "pack RUN -o again.kbrun",
    "plan": "plan gemm -p M=16 -p N=16 -p K=16 --topology one_pe",
    "probe": "probe pe0 hbm0",
    "replay": "replay small.kbrun",
    "report": "report RUN --levers none -o report.html",
    "run": f"run gemm {SMALL} --out another",
    "runs": "runs",
    "show": "show CAPTURED twice",
    "sweep": f"sweep gemm {SMALL} --jobs 2",
    "topology": "topology show one_pe",
    "trace": "trace RUN -o run.pftrace",
    "verify": "verify RUN",
    "whatif": "whatif RUN --set $.cube.nodes.hbm.bw_gbs=204.8",
}
"""Words after `kb`, of each command but web, which has no end."""
CAPTURED = """
import numpy as np
import kernbench as kb


def kernel(tl, x):
    tl.capture("twice", tl.load(x) * 2)


kb.run(kernel, np.ones((8, 8), np.float32), chip="one_pe", folder="kb-runs")
"""


def started(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has a script and two runs: RUN with its capsule, and CAPTURED."""
    folder = tmp_path_factory.mktemp("cold")
    for name, text in (("script.py", SCRIPT), ("captured.py", CAPTURED)):
        (folder / name).write_text(text, encoding="utf-8")
    assert python(folder, "captured.py").returncode == 0
    assert kb(folder, *f"run gemm {SMALL} --keep all".split()).returncode == 0
    for name, kept in (("RUN", "gemm-*"), ("CAPTURED", "kernel-*")):
        (run,) = folder.glob(f"kb-runs/{kept}")
        (folder / name).symlink_to(run, target_is_directory=True)
    assert kb(folder, "pack", "RUN", "-o", "small.kbrun").returncode == 0
    return folder


def test_every_command_is_started() -> None:
    assert COLD.keys() | {"web"} == COMMANDS.keys()


@pytest.mark.parametrize("name", sampled(sorted(COLD), 9))
def test_a_command_works_in_a_python_of_its_own(name: str, place: Path) -> None:
    done = started(place, KB, *COLD[name].split())
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_page_works_in_a_python_of_its_own(place: Path) -> None:
    with subprocess.Popen([KB, "web", "--no-open"], cwd=place, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            (address,) = re.findall(r"http://\S+", server.stdout.readline())
            with build_opener(HTTPCookieProcessor()).open(address, timeout=60) as page:
                assert page.status == 200
        finally:
            server.terminate()
