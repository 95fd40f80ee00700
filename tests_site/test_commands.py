"""Every command that a page shows runs, page by page, in a folder with the chips and benchmarks of the checkout."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "docs_site")
    shown = import_module("site_page_commands")

ELSEWHERE = {
    "README.md": {"python3 -m venv": "CI begins with this line", "/nox": "the pipeline itself", "/uv": "the pipeline"},
    "docs/CONTRIBUTING.md": {"/nox": "the pipeline itself"},
    "docs/site.md": {".venv/bin/nox -s site": "this session"},
    "docs/web.md": {"kb web": "tests_integration/test_docs_web.py"},
    "docs/python.md": {"kb show": "tests_integration/test_docs_python.py"},
    "packages/kb-cli/README.md": {"kb show": "tests_integration/test_docs_python.py"},
    "packages/kb-dataexec/README.md": {
        "--device cuda": "needs a GPU",
        "--length 8": "packages/kb-dataexec/tests/cli/test_foreign_logs.py",
        ":64x64:f16": "packages/kb-dataexec/tests/cli",
        "export LOG OUT": "tests_extras, because it needs DuckDB",
        "convert LOG.jsonl OUT": "packages/kb-dataexec/tests/cli",
    },
}
"""For a page, parts of commands that are run elsewhere, and where."""
BEFORE = {
    "docs/first-steps.md": "printf 'layer,M,N,K\\nk_proj,512,1024,4096\\n' > shapes.csv",
    "docs/triton.md": "printf 'from add import add\\nimport numpy as np\\n\\n\\ndef test_add():\\n"
    "    x = np.ones(64, np.float32)\\n    assert (add(x, x) == 2).all()\\n' > test_my_op.py",
    "packages/kb-cli/README.md": "cp topologies/one_cube.yaml chip.yaml && printf 'n\\n64\\n128\\n' > layers.csv && "
    "kb run gemm --out kb-runs && mv kb-runs/gemm-* kb-runs/OTHER && "
    "cp benchmarks/triton/numbers_of.py . && cp benchmarks/triton/row_softmax.py mine_with_triton.py",
    "packages/kb-dataexec/README.md": "kb run gemm -p M=64 -p N=64 -p K=64 --topology one_pe && "
    "cp -r kb-runs/*/log LOG && cp -r LOG A && cp -r LOG B",
}
"""What the reader of a page has done before its first command: files that the page talks about."""
FILES_OF = {"docs/golden-times.md": "docs/python.md"}
"""The page whose programs a page uses."""
NAMES = {"packages/kb-cli/README.md": {" ITS ARGUMENTS": ""}}
"""Names of a page that stand for others."""


def commands(page: str) -> list[str]:
    """The commands of *page* that run here."""
    parts = ELSEWHERE.get(page, {})
    return [line for line in shown.shown_commands()[page] if not any(part in line for part in parts)]


@pytest.mark.skipif(os.environ.get("KB_SITE_PARTS") == "pages", reason="the pages alone are looked at")
@pytest.mark.parametrize("page", shown.shown_commands())
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    for name in ("docs", "topologies", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name, text in {**shown.files_of(FILES_OF.get(page, page)), **shown.files_of(page)}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    for line in [BEFORE.get(page, "true"), *commands(page)]:
        text = re.sub(r"(?<!\S)\.venv/bin/", "", line)
        for name, other in NAMES.get(page, {}).items():
            text = text.replace(name, other)
        done = subprocess.run(text, shell=True, cwd=tmp_path, capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_what_runs_elsewhere_is_on_its_page() -> None:
    for page, parts in ELSEWHERE.items():
        text = "\n".join(shown.shown_commands()[page])
        assert [part for part in parts if part not in text] == []


def test_most_commands_run_here() -> None:
    assert sum(len(commands(page)) for page in shown.shown_commands()) > 50
